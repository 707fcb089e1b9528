"""Programs that look at the start and the end of Python itself; most of them do not import torch."""

import atexit
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

from program import digest, need, run

# What is documented to differ: variables of nsyswrap, and its folder in PYTHONPATH.
OURS = "NSYSWRAP"
SITECUSTOMIZE = """
import sys
print("own sitecustomize", __name__, __file__[-20:], sys.argv, sys.modules[__name__].__spec__.name)
value = 5
"""
USE_OF_SITECUSTOMIZE = """
import sitecustomize, sys
print(sitecustomize.value, sitecustomize.__file__[-20:], [path for path in sys.path if "own" in path])
"""


def of_program(paths):
    """Return the entries of a path without a folder that nsyswrap wrote for the run."""
    texts = ((each, Path(each, "sitecustomize.py")) for each in paths.split(os.pathsep) if each)
    return [each for each, file in texts if not (file.exists() and "Written by nsyswrap" in file.read_text())]


def python(*arguments, name=sys.executable, path=None, **variables):
    """Run a Python, and print its exit code and what it prints."""
    given = os.environ.get("PYTHONPATH", "")
    environ = {**os.environ, **variables}
    if path is not None:
        environ["PYTHONPATH"] = path.format(given=given).strip(os.pathsep)
    done = subprocess.run([name, *arguments], env=environ, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    print(done.returncode, done.stdout, done.stderr, sep="|", flush=True)


def program_environment():
    names = [
        name for name in sorted(os.environ) if not name.startswith((OURS, "PYTHONPATH", "LISTENER", "PWD", "OLDPWD"))
    ]
    print(*((name, digest(os.environ[name])) for name in names), sep="\n")
    print(of_program(os.environ.get("PYTHONPATH", "")))


def program_path():
    print(*sys.path, sep="\n")
    print(sys.prefix, sys.exec_prefix, sys.executable, sys.pycache_prefix, sys.flags, sys.warnoptions, sys._xoptions)
    print(sys.argv, sys.orig_argv[1:], sys.path[0] == os.path.dirname(os.path.abspath(__file__)))


def program_modules_at_start():
    """Which modules are imported already can be seen, and the program's libraries do look for some."""
    names = "name for name in sys.modules if not name.startswith('_nsyswrap')"
    python("-c", f"import sys; print(*sorted({names}), sep=chr(10))")
    libraries = (
        "torch numpy nvtx asyncio multiprocessing concurrent.futures logging ssl socket subprocess threading ctypes"
    )
    python("-c", f"import sys; print([name for name in {libraries.split()} if name in sys.modules])")


def program_import_system():
    print(sys.meta_path, [each.__name__ if hasattr(each, "__name__") else each for each in sys.path_hooks])
    print([name for name in sys.path_importer_cache if "nsyswrap" in name])
    for name in ("sitecustomize", "usercustomize", "torch", "numpy", "_nsyswrap_annotate", "nsyswrap_annotate"):
        try:
            spec = importlib.util.find_spec(name)
            print(name, spec and spec.origin, spec and type(spec.loader).__name__, spec and vars(spec.loader).keys())
        except ValueError as error:
            print(name, error)


def program_threads_and_signals():
    print([(each.name, each.daemon) for each in threading.enumerate()], threading.active_count())
    print(
        {
            number.name: signal.getsignal(number)
            for number in signal.valid_signals()
            if isinstance(number, signal.Signals) and signal.getsignal(number) not in (signal.SIG_DFL, None)
        }
    )
    print(
        sys.excepthook is sys.__excepthook__,
        threading.excepthook is threading.__excepthook__,
        sys.unraisablehook is sys.__unraisablehook__,
    )
    print(sys.displayhook is sys.__displayhook__, sys.breakpointhook is sys.__breakpointhook__, sys.getswitchinterval())
    print(
        sys.getrecursionlimit(),
        sys.stdout.encoding,
        sys.stdout.line_buffering,
        sys.stderr.line_buffering,
        sys.stdin.name,
    )
    print(sorted(name for name in vars(sys.modules["builtins"]) if name[0] != "_" or "nsys" in name)[:3], len(dir(sys)))


def program_main_module():
    main = sys.modules["__main__"]
    print(
        main.__file__ == __file__,
        main.__spec__,
        main.__package__,
        type(main.__loader__).__name__,
        main.__builtins__.__name__,
    )
    print(sorted(name for name in vars(main) if name.startswith("__")))


def program_exit_codes():
    for code in (
        "import sys; sys.exit(7)",
        "import sys; sys.exit('text')",
        "raise SystemExit",
        "1/0",
        "import os; os._exit(9)",
        "import os; os.abort()",
        "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
        "raise KeyboardInterrupt",
        "import sys; sys.exit(300)",
        "def f(): f()\nf()",
        "import atexit; atexit.register(lambda: 1/0)",
        "exit(3)",
        "import sys\nsys.stdout.close()",
        "import os; print('lost?'); os.close(1)",
        "syntax error",
        "import threading, sys; threading.Thread(target=sys.exit, args=(3,)).start()",
    ):
        print(code)
        python("-c", code)


def program_options_of_python():
    for options in (
        ("-I",),
        ("-E",),
        ("-S",),
        ("-s",),
        ("-B",),
        ("-O",),
        ("-OO",),
        ("-P",),
        ("-bb",),
        ("-W", "error"),
        ("-u",),
        ("-q",),
        ("-X", "dev"),
        ("-X", "utf8"),
        ("-X", "tracemalloc"),
        ("-X", "faulthandler"),
        ("-W", "error", "-X", "dev", "-bb"),
        ("-X", "frozen_modules=off"),
        ("-X", "no_debug_ranges"),
    ):
        print(options)
        python(*options, "-c", "import sys, json, ctypes, atexit; print(sys.flags, len(sys.path_hooks), sys.argv)")


def program_ways_to_start():
    Path("package").mkdir()
    Path("package", "__init__.py").touch()
    Path("package", "__main__.py").write_text("import sys; print(__name__, sys.argv[1:], sys.path[0])")
    with zipfile.ZipFile("program.pyz", "w") as archive:
        archive.writestr("__main__.py", "import sys; print(__name__, sys.argv)")
    python("-m", "package", "a")
    python("package", "b")
    python("program.pyz", "c")
    done = subprocess.run([sys.executable, "-"], input="import sys; print(sys.argv)", capture_output=True, text=True)
    print(done)
    python("-c", "import runpy; runpy.run_module('package', run_name='__main__')")
    python("missing.py")
    python("-m", "missing")


def program_interactive():
    lines = "x = 1\nx + 1\n1/0\nimport sys; sys.ps1\nexit(4)\n"
    done = subprocess.run([sys.executable, "-i", "-q"], input=lines, capture_output=True, text=True)
    print(done.returncode, done.stdout, done.stderr)


def program_other_pythons():
    """Children with other versions of Python print nothing that they would not print alone."""
    found = sorted(Path.home().glob(".pyenv/versions/*/bin/python"))
    need(reason="" if found else "needs other Pythons in ~/.pyenv")
    for each in found:
        print(each.parts[-3])
        python("-W", "error", "-c", "import sys; sys.stdout.write('%s.%s' % sys.version_info[:2])", name=each)


def program_own_sitecustomize():
    Path("own").mkdir()
    Path("own", "sitecustomize.py").write_text(SITECUSTOMIZE)
    own = os.path.abspath("own")
    for path in (own, own + ":{given}", "{given}:" + own):
        python("-c", USE_OF_SITECUSTOMIZE, path=path)


def program_failing_sitecustomize():
    Path("own").mkdir()
    for text in (
        "raise ValueError('own')",
        "import missing_module",
        "import sys; sys.exit(3)",
        "syntax error",
        "raise KeyboardInterrupt",
    ):
        Path("own", "sitecustomize.py").write_text(text)
        python("-c", "print('goes on')", path="{given}:" + os.path.abspath("own"))


def program_own_usercustomize():
    Path("own").mkdir()
    Path("own", "usercustomize.py").write_text("print('own usercustomize', __file__[-20:])")
    base = next(Path(sys.base_prefix, "bin").glob("python3"))
    python(
        "-c", "import sys; print('usercustomize' in sys.modules)", name=base, path="{given}:" + os.path.abspath("own")
    )


def program_changed_paths_of_children():
    """A child whose PYTHONPATH is replaced, emptied or removed."""
    Path("own").mkdir()
    Path("own", "own_module.py").write_text("print('own module')")
    own = os.path.abspath("own")
    for path in (own, own + ":{given}", "", ".:own"):
        python("-c", "import sys; print(len(sys.argv)); import own_module", path=path)
    environ = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME"}}
    print(
        subprocess.run([sys.executable, "-c", "import os; print(sorted(os.environ))"], env=environ, capture_output=True)
    )
    os.environ.pop("PYTHONPATH", None)
    print(subprocess.run([sys.executable, "-c", "print(2)"], capture_output=True, text=True))
    os.environ.clear()
    print(subprocess.run([sys.executable, "-c", "print(3)"], capture_output=True, text=True))


def program_unwritable_stderr():
    code = "import sys; sys.stdout.write('out'); sys.stderr.write('error')"
    print(subprocess.run(f'{sys.executable} -c "{code}" 2>&-', shell=True, stdout=subprocess.PIPE))
    print(subprocess.run(f'{sys.executable} -c "{code}" >&- 2>&-; echo $?', shell=True, stdout=subprocess.PIPE))
    print(subprocess.run(f'{sys.executable} -c "import sys; print(sys.stdin)" <&-', shell=True, stdout=subprocess.PIPE))
    print(
        subprocess.run(
            f'{sys.executable} -c "print(1)" > /dev/full; echo $?', shell=True, stdout=subprocess.PIPE, stderr=-1
        )
    )


def program_order_at_exit():
    class Last:
        def __del__(self):
            print("deleted", sys is not None, flush=True)

    globals()["kept"] = Last()
    atexit.register(print, "first registered")
    atexit.register(print, "second registered")
    threading._register_atexit(print, "threads end")
    threading.Thread(target=lambda: print("thread")).start()
    print(atexit._ncallbacks())


def program_opened_files():
    """The numbers of files that the program opens begin where they would begin alone."""
    with open(__file__) as file:
        print(file.fileno(), sorted(int(name) for name in os.listdir("/proc/self/fd")))


def program_working_folder_and_files():
    print(sorted(os.listdir(".")), os.umask(0o022), os.getpgid(0) == os.getpid(), os.nice(0))
    print({path.name for path in Path(__file__).parent.glob("*") if "nsyswrap" in path.name})


def program_file_names_in_code():
    import warnings

    warnings.warn("own warning")
    print(compile("1", "own", "eval").co_filename, program_path.__code__.co_filename == __file__)
    raise RuntimeError("own error")


if __name__ == "__main__":
    run(globals())
