"""Has a process of Python, and the processes that it starts, note which files they open.

Python imports a module of this name as it starts, and finds this one first. Any version of Python
may meet it, without our package. Whatever fails here, the user's program goes on.
"""

import functools
import importlib
import os
import sys

LIBRARIES = {"site-packages", "dist-packages"}  # of this environment, and of those around it
MOST_FILES = 200  # of a folder, that are recorded one by one
VARIABLE = "ABLATE_NOTES"  # of the environment: the file for notes, and the folders, a line each


class Notes:
    """Appends a line to a file for each file that is opened below some folders."""

    def __init__(self, file, folders):
        self._file, self._folders = file, tuple(folders)
        self._seen, self._num = set(), {}  # num: the files that were read, by folder

    def take_in(self, path, mode, flags):
        """Note an opening, with the time of the last change of a file that is read."""
        name, is_written = path_of(path), writes(mode, flags)
        if not name or (name, is_written) in self._seen or not self._is_beside(name):
            return
        if is_written:
            self._note(name, is_written, 0)
        elif name.endswith((".py", ".pyc")) or not self._is_one_of_many(name):
            self._note(name, is_written, os.stat(name).st_mtime_ns)

    def _note(self, name, is_written, changed):
        self._seen.add((name, is_written))
        # Opened for each line: a program may close files that it did not open itself.
        notes = os.open(self._file, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(notes, ascii((name, is_written, changed)).encode() + b"\n")
        finally:
            os.close(notes)

    def _is_one_of_many(self, name):
        """Return whether enough files of the folder were noted, of which the folder is then one."""
        folder = os.path.dirname(name)
        self._num[folder] = self._num.get(folder, 0) + os.path.isfile(name)
        return self._num[folder] > MOST_FILES + 1

    def _is_beside(self, name):
        """Return whether a file is in one of the folders, neither hidden nor a library's."""
        for folder in self._folders:
            if name.startswith(folder):
                rest = os.sep + name[len(folder) :]
                parts = rest.split(os.sep)
                return os.sep + "." not in rest and not LIBRARIES.intersection(parts)
        return False


def hear(notes, event, arguments):
    """Let `notes` take in an opening that an audit hook hears of; a new name is a writing too."""
    try:
        if event == "open":
            notes.take_in(*arguments)
        elif event == "os.rename":
            notes.take_in(arguments[1], "w", 0)
    except Exception:
        pass


def path_of(path):
    """The whole path of what is opened; empty for what has none."""
    if path is None or isinstance(path, int):
        return ""
    return os.path.abspath(os.fsdecode(path))


def writes(mode, flags):
    """Return whether a file is opened to be written."""
    if mode:
        return not mode.startswith("r") or "+" in mode
    return not isinstance(flags, int) or flags & os.O_ACCMODE != os.O_RDONLY


def _import_next():
    """Import the user's own module of this name, which ours has hidden."""
    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != own]
    ours = sys.modules.pop(__name__)
    try:
        importlib.import_module(__name__)
    except ImportError as error:
        if error.name != __name__:
            raise
    finally:
        sys.modules.setdefault(__name__, ours)


if __name__ == "sitecustomize":
    if VARIABLE in os.environ and hasattr(sys, "addaudithook"):
        _lines = os.environ[VARIABLE].split("\n")
        sys.addaudithook(functools.partial(hear, Notes(_lines[0], _lines[1:])))
    _import_next()
