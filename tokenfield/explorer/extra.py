"""The packages of the extra `explore`."""

from importlib.util import find_spec

SERVER = ("starlette", "uvicorn", "websockets")


def require(*packages: str) -> None:
    """Raise ValueError with the command that installs them if packages are missing."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise ValueError(
            f'{", ".join(missing)} {verb} not installed: pip install -e ".[explore]" in the folder of tokenfield'
        )
