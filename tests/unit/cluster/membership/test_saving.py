from bobbin.cluster.membership.saving import Saving


def test_one_is_written_at_a_time_and_what_others_cause_not_more_often_than_the_interval() -> None:
    saving = Saving(200)
    assert not saving.take(0), "nothing is wanted"
    saving.want()
    due = [saving.due_ns]
    assert saving.take(0)
    saving.began()
    saving.want()
    due.append(saving.due_ns)
    assert not saving.take(1_000), "the one before is under way"
    saving.ended()
    due.append(saving.due_ns)
    assert due == [-1, None, 200]
    assert not saving.take(199)
    assert saving.take(200)


def test_what_the_node_writes_of_itself_settles_what_was_wanted_and_delays_nothing() -> None:
    saving = Saving(200)
    saving.want()
    saving.began()
    saving.ended()
    assert not saving.take(10), "the highest was written"
    saving.want()
    assert saving.take(10)
