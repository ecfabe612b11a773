"""Numbers as a person reads them."""

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_DECIMAL = ("", "k", "M", "G", "T")


def format_bytes(count: float) -> str:
    """1536 -> '1.5 KiB': powers of 1024, three significant figures at least."""
    return _scaled(float(count), 1024.0, _BINARY)


def format_count(count: float) -> str:
    """1234567 -> '1.23M', and below ten thousand every digit: 4211 -> '4,211'."""
    if abs(count) < 10_000:
        return f"{count:,.0f}" if float(count).is_integer() else f"{count:,.3g}"
    return _scaled(float(count), 1000.0, _DECIMAL).replace(" ", "")


def format_seconds(seconds: float) -> str:
    """75 -> '1 min 15 s': the two largest units that matter."""
    if seconds < 0:
        return "-" + format_seconds(-seconds)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    days, hours, minutes = whole // 86_400, whole % 86_400 // 3600, whole % 3600 // 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"


def _scaled(value: float, base: float, names: tuple[str, ...]) -> str:
    power = 0
    while abs(value) >= base and power < len(names) - 1:
        value /= base
        power += 1
    if power == 0:
        return f"{value:.0f} {names[0]}".rstrip()
    digits = 0 if abs(value) >= 100 else 1 if base == 1024.0 or abs(value) >= 10 else 2
    return f"{value:.{digits}f} {names[power]}"
