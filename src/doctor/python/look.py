"""What this interpreter and a spawned child of it load and see. Writes JSON to the file named by the first argument."""

import ctypes
import importlib.util
import json
import multiprocessing
import os
import site
import sys


def mapped():
    """Files of NCCL that this process has mapped."""
    found = []
    with open("/proc/self/maps") as maps:
        for line in maps:
            path = line[line.find("/"):].strip() if "/" in line else ""
            name = os.path.basename(path)
            if name.startswith("libnccl") and ".so" in name and path not in found:
                found.append(path)
    return found


def hook(name):
    """The file of a module that the interpreter imports by itself at its start."""
    module = sys.modules.get(name)
    return getattr(module, "__file__", None)


def wheels():
    """Libraries that wheels have put beside this interpreter's packages."""
    found = []
    for folder in sys.path:
        path = os.path.join(folder, "nvidia", "nccl", "lib", "libnccl.so.2")
        if os.path.isfile(path) and path not in found:
            found.append(path)
    return found


def path_files():
    """Files that run code at every start and speak of NCCL."""
    found = []
    folders = [folder for folder in sys.path if os.path.isdir(folder)]
    for folder in folders:
        for name in sorted(os.listdir(folder)):
            if name.endswith(".pth"):
                path = os.path.join(folder, name)
                try:
                    with open(path, errors="replace") as file:
                        lines = file.read().splitlines()
                except OSError:
                    continue
                if any(line.startswith("import") and "NCCL" in line.upper() for line in lines):
                    found.append(path)
    return found


def torch():
    """Imports torch, if it is there: nothing else tells which library it loads."""
    try:
        if importlib.util.find_spec("torch") is None:
            return None
    except (ImportError, ValueError) as error:
        return {"error": repr(error)}
    try:
        import torch
    except BaseException as error:  # a broken installation can raise anything
        return {"error": repr(error)[:500]}
    return {"version": str(torch.__version__), "mapped": mapped()}


def by_name():
    """What the dynamic loader gives for the name that servers ask for; they load torch first."""
    try:
        ctypes.CDLL("libnccl.so.2")
    except OSError as error:
        return {"error": str(error)[:500]}
    return {"mapped": mapped()}


def look(load):
    """All that is asked of one process; loads libraries when `load` is set."""
    told = {
        "executable": sys.executable,
        "version": sys.version.split()[0],
        "prefix": sys.prefix,
        "isolated": bool(sys.flags.isolated),
        "ignores_environment": bool(sys.flags.ignore_environment),
        "sitecustomize": hook("sitecustomize"),
        "usercustomize": hook("usercustomize"),
        "user_site": bool(site.ENABLE_USER_SITE),
        "path_files": path_files(),
        "wheels": wheels(),
        "before": mapped(),
        "variables": {name: value for name, value in os.environ.items() if name.startswith("NCCL_")},
        "loader": {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "LD_PRELOAD") if name in os.environ},
    }
    if load:
        told["torch"] = torch()
        told["by_name"] = by_name()
    return told


def child(path):
    """Runs in the spawned child."""
    with open(path, "w") as file:
        json.dump(look(load=True), file)


def main():
    """Looks at this process and at a child, and writes what both told."""
    path = sys.argv[1]
    # Before anything is loaded, which would change what the child inherits.
    of_child, failure = None, None
    try:
        process = multiprocessing.get_context("spawn").Process(target=child, args=(path + ".child",))
        process.start()
        process.join()
        with open(path + ".child") as file:
            of_child = json.load(file)
    except BaseException as error:  # told, whatever it is
        failure = repr(error)[:500]
    told = {"own": look(load=True), "child": of_child, "failure": failure}
    with open(path, "w") as file:
        json.dump(told, file)


if __name__ == "__main__":
    main()
