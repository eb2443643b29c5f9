"""The constants that the protocols leave open: a change here changes what two laces agree on."""

from bobbin import profile


def test_the_values_are_those_of_the_profile() -> None:
    values = {name: value for name, value in vars(profile).items() if name.isupper()}
    expected = {
        "DERIVE_SIGNING_KEY": "lace-\U0001f5a7/adhoc-key",
        "DERIVE_AUXILIARY": "lace-\U0001f5a7/aux",
        "DERIVE_NONCE": "lace-\U0001f5a7/nonce",
        "DERIVE_CHALLENGE": "lace-\U0001f5a7/challenge",
        "HEADER_LINE_BYTES_MAX": 1024,
        "EXTRA_HEADERS_MAX": 512,
        "DATA_BYTES_MAX": 33_554_432,
        "RECORD_BYTES_MAX": 35_651_584,
        "EXTRA_HEADERS_SORTED": True,
        "RESERVED_HEADERS": {"Group", "App", "Name", "TAI", "Data-Length", "Signed-By", "Signature", "Type"},
        "RESERVED_HEADER_PREFIXES": ("\U0001f5a7", "\u22ef"),
        "SEGMENT_BYTES_MAX": 255,
        "GROUP_BYTES_MAX": 255,
        "APP_BYTES_MAX": 255,
        "SEGMENT_FORBIDDEN": "/{}|#",
        "FACT_VALUE_BYTES_MAX": 4096,
    }
    assert {name: values[name] for name in expected} == expected


def test_every_valid_record_fits() -> None:
    header_bytes = (profile.EXTRA_HEADERS_MAX + 16) * (profile.HEADER_LINE_BYTES_MAX + 1)
    assert profile.DATA_BYTES_MAX + header_bytes <= profile.RECORD_BYTES_MAX
