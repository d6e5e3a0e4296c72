"""Every public name means the same whatever was imported before."""

import subprocess
import sys

SCRIPT = """
import ast, importlib, inspect, pkgutil
import tokenfield as tkf

found = [module for module in pkgutil.walk_packages(tkf.__path__, "tokenfield.") if not module.name.endswith("__main__")]
for module in found:
    importlib.import_module(module.name)
checked, hidden = 0, []
for name in ["tokenfield"] + [module.name for module in found if module.ispkg]:
    package = importlib.import_module(name)
    body = ast.parse(inspect.getsource(package)).body
    body += [node for branch in body if isinstance(branch, ast.If) for node in branch.body]  # if TYPE_CHECKING
    imports = [node for node in body if isinstance(node, ast.ImportFrom)]
    names = {alias.name for node in imports if node.level and node.module for alias in node.names}
    for public in sorted(names.union(getattr(package, "__all__", ()))):
        if not public.startswith("_") and hasattr(package, public):
            checked += 1
            hidden += [f"{name}.{public}"] if inspect.ismodule(getattr(package, public)) else []
print(checked > 200, hidden)
"""


def test_no_module_takes_the_place_of_a_function():
    """Importing a module sets it on its package: one named like a function of that package would replace it."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    assert done.stdout.strip() == "True []"
