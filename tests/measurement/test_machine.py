import platform

from measurement.machine import describe


def test_machine_is_described_without_its_name() -> None:
    machine = describe()
    assert machine.cores >= 1
    assert machine.memory_gib > 0
    assert machine.python.endswith(platform.python_version())
    assert {"bobbin", "apsw", "blake3"} <= set(machine.packages)
    assert "pytest" not in machine.packages
    # "localhost" and the like may be part of other words; a real name may not appear.
    assert platform.node() == "" or platform.node() not in (machine.cpu, machine.system)
