from bobbin.store.lake.keys import KEY, derived_key


def test_the_key_depends_on_every_part_and_not_on_their_order() -> None:
    key = derived_key(plan="a", index=1, fields=("App", "Group"))
    assert KEY.fullmatch(key)
    assert derived_key(fields=["App", "Group"], index=1, plan="a") == key
    others = {
        derived_key(plan="b", index=1, fields=("App", "Group")),
        derived_key(plan="a", index=2, fields=("App", "Group")),
        derived_key(plan="a", index=1, fields=("Group", "App")),
        derived_key(plan="a", index="1", fields=("App", "Group")),
        derived_key(plan="a", index=1, fields=None),
    }
    assert len(others | {key}) == 6


def test_a_key_is_the_same_on_every_machine() -> None:
    assert derived_key(plan="a", index=1) == "f997a509a241886f"
