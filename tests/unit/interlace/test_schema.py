"""Field schemas: the laws of their intersection, and what a plan needs of one."""

from hypothesis import given
from hypothesis import strategies as st

from bobbin.interlace.schema import Schema, schema_for
from bobbin.policy.advertised_fields import FieldRequirements

_NAMES = ("Type", "Group", "App", "Name", "TAI", "Signed-By", "Signature", "Colour", "group")
_SETS = st.frozensets(st.sampled_from(_NAMES))
_SCHEMAS = st.just(Schema(all=True)) | _SETS.map(lambda names: Schema(names=names))
_REQUIREMENTS = st.builds(FieldRequirements, names=_SETS, all=st.booleans())


@given(_SCHEMAS, _SCHEMAS, _SCHEMAS)
def test_il_154_the_intersection_does_not_depend_on_the_side(one: Schema, another: Schema, third: Schema) -> None:
    """IL-154."""
    assert one & another == another & one
    assert (one & another) & third == one & (another & third)
    assert one & one == one


@given(_SCHEMAS, _SCHEMAS)
def test_il_154_a_name_is_in_it_if_both_have_it(one: Schema, another: Schema) -> None:
    """IL-154."""
    for name in (*_NAMES, "Anything-Else"):
        assert (name in one & another) == (name in one and name in another)


@given(_SCHEMAS)
def test_il_156_all_fields_with_names_gives_the_names(schema: Schema) -> None:
    """IL-156, IL-157."""
    assert Schema(all=True) & schema == schema & Schema(all=True) == schema


def test_il_155_any_field_name_can_be_in_a_schema() -> None:
    """IL-155."""
    schema = Schema(names=frozenset(_NAMES))
    assert all(name in schema for name in _NAMES)
    assert "Anything-Else" not in schema
    assert "Anything-Else" in Schema(all=True)


def test_il_159_names_match_exactly() -> None:
    """IL-159."""
    schema = Schema(names=frozenset({"Group"})) & Schema(names=frozenset({"group"}))
    assert schema == Schema()
    assert "Group" not in schema


def test_ilc_116_all_fields_with_names_counts_as_all() -> None:
    """ILC-116."""
    both = Schema(names=frozenset({"App"}), all=True)
    assert "Group" in both
    assert both.satisfies(FieldRequirements(all=True))
    assert both & Schema(names=frozenset({"Group"})) == Schema(names=frozenset({"Group"}))


@given(_SCHEMAS, _SCHEMAS, _REQUIREMENTS)
def test_what_satisfies_a_plan_satisfies_it_on_both_sides(
    one: Schema, another: Schema, required: FieldRequirements
) -> None:
    """IL-078, IL-079."""
    assert (one & another).satisfies(required) == (one.satisfies(required) and another.satisfies(required))


def test_il_079_names_never_satisfy_a_rule_that_reads_every_field() -> None:
    """IL-079."""
    assert not Schema(names=frozenset(_NAMES)).satisfies(FieldRequirements(all=True))
    assert Schema(all=True).satisfies(FieldRequirements(all=True))
    assert Schema().satisfies(FieldRequirements())


@given(_REQUIREMENTS)
def test_the_schema_for_a_plan_is_the_smallest_that_will_do(required: FieldRequirements) -> None:
    schema = schema_for(required)
    assert schema.satisfies(required)
    for name in schema.names:
        assert not Schema(names=schema.names - {name}).satisfies(required)
    assert schema.all == required.all
