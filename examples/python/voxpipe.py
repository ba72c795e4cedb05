# SPDX-License-Identifier: BSD-3-Clause
"""Call the programs of voxpipe from Python: NumPy arrays in, NumPy arrays out.

Every program is a function of the same name, with ``_`` for ``-``:

>>> import voxpipe as vp
>>> smooth = vp.img_gauss(volume, sigma=2)
>>> fdk = vp.pipe(vp.ct_normalize(flat=flat, dark=dark, g="scan.geom"), vp.ct_filter(), vp.ct_backproject())
>>> volume = fdk(counts)

Inputs are arrays or names of files. The axes of an array are those of scikit-image: ``(row, column)`` or
``(plane, row, column)``. Options keep the order of the programs, x first: ``sigma=(sx, sy, sz)``.
``help(vp.img_gauss)`` prints the options of a program.

The programs are looked for in the folder ``$VOXPIPE_BIN``, in ``PATH``, beside this file, and in ``build/bin`` of the
source tree. NumPy is the only dependency.
"""
from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import warnings
from functools import lru_cache
from typing import Any, BinaryIO

import numpy as np

PROGRAMS = """
    ct_backproject ct_fdk ct_filter ct_geom ct_iterate ct_normalize ct_phantom ct_project ct_reduce
    img_cat img_cmp img_convert img_convolve img_deconvolve img_gauss img_info img_local img_log img_math img_morph
    img_morphrecon img_nlmeans img_psf img_sat img_threshold img_view img_wiener""".split()
__all__ = ["Pipeline", "Stack", "VoxpipeError", "VoxpipeWarning", "imread", "imwrite", "pipe"] + PROGRAMS


class VoxpipeError(RuntimeError):
    """A program failed; the message is the program's own.

    Attributes
    ----------
    program : str
        Name of the program.
    status : int
        Its exit status: 1 the run failed (of ``img_cmp``: the inputs differ), 2 wrong usage, 3 a resource is missing;
        negative: the signal that ended it.
    output : object
        What it printed before it failed, such as the report of ``img_cmp``.
    """

    def __init__(self, message: str, program: str, status: int, output: Any = None):
        super().__init__(message)
        self.program, self.status, self.output = program, status, output

    def __reduce__(self):
        return type(self), (str(self), self.program, self.status, self.output)


class VoxpipeWarning(UserWarning):
    """A program succeeded with a warning."""


class Stack(np.ndarray):
    """An array with the metadata of a voxpipe stack, as the programs return it.

    Parameters
    ----------
    samples : array_like
        The samples. They are not copied.
    meta : dict, optional
        Metadata, such as the ``meta`` of another stack.
    **more
        Further metadata, with ``_`` for ``-``: ``axes="x y z", voxel=(0.1, 0.1, 0.25), unit="mm"``.

    Attributes
    ----------
    meta : dict
        The keys of voxpipe-stack(5), each with its text, or with a list of texts if the key has several lines, as
        ``history`` has. ``axes`` are named fastest first: "x y z" is an array of shape ``(nz, ny, nx)``.

    Notes
    -----
    ``copy`` and ``astype`` keep the metadata. Elementwise arithmetic keeps the axes, voxel size and geometry, but not
    what the samples are (quantity, unit, scale). Slices, reductions and all other results have no metadata, because
    they would be wrong. ``img_cat(stack, pages="10:20")`` cuts a stack with its metadata; ``Stack(array, stack.meta)``
    attaches them to any array.

    Samples are as they are stored: if ``meta`` has a ``scale``, ``img_convert(stack, unscale=True)`` returns values.
    """

    meta: dict

    def __new__(cls, samples, meta: dict | None = None, **more):
        stack = np.asarray(samples).view(cls)
        stack.meta = {**getattr(samples, "meta", {}), **(meta or {})}
        stack.meta.update((key.replace("_", "-"), value) for key, value in more.items())
        return stack

    def __array_finalize__(self, source):
        self.meta = {}

    def __array_wrap__(self, array, context=None, return_scalar=False):
        if array.ndim == 0:
            return array[()]
        elementwise = context is not None and context[0].signature is None and array.shape == self.shape
        meaning = ("quantity", "value-unit", "scale", "palette")
        return Stack(array, {k: v for k, v in self.meta.items() if k not in meaning} if elementwise else None)

    def copy(self, order="C"):
        return Stack(super().copy(order), self.meta)

    def astype(self, *args, **options):
        return Stack(super().astype(*args, **options), self.meta)

    def __reduce__(self):
        return Stack, (np.asarray(self), self.meta)


class Pipeline:
    """Programs joined by pipes, to be called with the inputs of the first one.

    Calling a program without inputs, or with ``"-"`` (the pipe) among them, makes a pipeline of one program;
    `pipe` joins pipelines.
    """

    def __init__(self, stages: list):
        self.stages = stages  # of (program, options, operands)

    def __call__(self, *inputs, **options):
        """Run the programs.

        Parameters
        ----------
        *inputs : array_like, bytes, str or path
            Inputs of the first program: arrays, or names of files. A ``bytes`` object is the content of a file.
        **options
            Further options of the last program, such as ``output``.

        Returns
        -------
        result : Stack, str, dict, bytes or path
            A stack becomes an array; text (``ct_geom``, ``img_info``) is a string, with ``json=True`` a dictionary;
            pictures and ``raw_out=True`` are bytes. With ``output=FILE`` the last program writes the file, and its name
            is returned.

        Raises
        ------
        VoxpipeError
            If a program fails.
        """
        stages = list(self.stages)
        program, first_options, operands = stages[0]
        given = list(inputs)
        operands = [given.pop(0) if given and _is_pipe(x) else x for x in operands]
        stages[0] = program, first_options, operands + given
        program, last_options, operands = stages[-1]
        stages[-1] = program, {**last_options, **_options(options)}, operands
        return _run(stages)

    def __repr__(self):
        return " | ".join(shlex.join(_command(*stage, lambda value: "ARRAY")) for stage in self.stages)


def pipe(*pipelines: Pipeline) -> Pipeline:
    """Join programs by pipes, as ``|`` does in a shell.

    Parameters
    ----------
    *pipelines : Pipeline
        Programs called without inputs.

    Returns
    -------
    pipeline : Pipeline
        Call it with the inputs of the first program. Nothing but the last result passes through Python.

    Examples
    --------
    >>> scan = vp.ct_geom(sod=1000, sdd=1500, detector=(64, 64), pitch=4, views=90)
    >>> head = vp.pipe(scan, vp.ct_phantom(), vp.ct_fdk())()
    """
    if not pipelines or not all(isinstance(p, Pipeline) for p in pipelines):
        raise TypeError("pipe: expected programs called without inputs")
    return Pipeline([stage for p in pipelines for stage in p.stages])


def imread(*files, **options) -> Stack:
    """Read a stack from TIFF files (any that libtiff reads), or with ``raw_in="WxH:u16le"`` from bare samples."""
    return _function("img_cat")(*files, **options)


def imwrite(file, array, **options):
    """Write an array as a TIFF file with its metadata. Options are those of img-cat, such as ``compress="deflate"``."""
    return _function("img_cat")(array, output=file, **options)


def __getattr__(name: str):
    if name not in PROGRAMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _function(name)


def __dir__():
    return __all__


@lru_cache(maxsize=None)
def _function(name: str):
    """Return the function that calls a program."""
    program = name.replace("_", "-")

    def call(*operands, **options):
        stage = program, _options(options), list(operands)
        expression = program == "img-math" and not {"--expression", "-e"} & set(stage[1])
        inputs = operands[1:] if expression else operands
        return _run([stage]) if inputs and not any(map(_is_pipe, inputs)) else Pipeline([stage])

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"""Call {program}(1) on arrays or files; without inputs, return a `Pipeline`.

Long options are keyword arguments with _ for -. True sets a flag, a tuple is (2, 2, 0.5) or 64x64x64 as the option
wants it, a list repeats the option, and an array may stand for a file; "_2d" is --2d and "from_" is --from.

{_help(program)}"""
    return call


def _find(program: str) -> str:
    here = os.path.dirname(os.path.abspath(__file__))
    tree = os.path.join(here, "..", "..", "build", "bin")
    folders = filter(None, (os.environ.get("VOXPIPE_BIN"), os.environ.get("PATH"), here, tree))
    path = shutil.which(program, path=os.pathsep.join(folders))
    if path is None:
        raise FileNotFoundError(f"{program}: not found; add its folder to PATH or name it in VOXPIPE_BIN")
    return path


@lru_cache(maxsize=None)
def _help(program: str) -> str:
    return subprocess.run([_find(program), "--help"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True,
                          text=True).stdout


def _options(keywords: dict) -> dict:
    keys = [key.strip("_").replace("_", "-") for key in keywords]
    return {f"-{key}" if len(key) == 1 else f"--{key}": value for key, value in zip(keys, keywords.values())}


def _is_pipe(value) -> bool:
    return isinstance(value, str) and value == "-"


def _is_array(value) -> bool:
    return isinstance(value, bytes) or getattr(value, "ndim", 0) > 1


def _command(program: str, options: dict, operands: list, pass_array) -> list:
    """Return the words of a command; pass_array(value) returns the file name that stands for an array."""
    words = [program]
    for option, values in options.items():
        for value in values if isinstance(values, list) else [values]:
            if isinstance(value, (bool, np.bool_, type(None))):
                words += [option] * bool(value)
                continue
            if _is_array(value):
                text = pass_array(value)
            elif isinstance(value, (tuple, np.ndarray)):
                row = re.search(rf"^ {{2,6}}(?:-\w, )?{option}(?:, --\S+)? +(\S+)", _help(program), re.MULTILINE)
                text = ("x" if row and "x" in row[1] else ",").join(map(str, np.ravel(value)))
            else:
                text = str(value)
            words += [f"{option}={text}"] if option.startswith("--") else [option, text]
    files = [os.fspath(x) if isinstance(x, (str, os.PathLike)) else pass_array(x) for x in operands]
    return words + ["--"] * bool(files) + files


def _run(stages: list):
    """Run programs joined by pipes; return the result of the last one."""
    processes: list = []
    messages: list = []  # a file for the standard error of each program
    threads: list = []
    failures: list = []  # exceptions of threads
    upstream: Any = subprocess.DEVNULL
    result, cut = None, None
    try:
        for stage in stages:
            inputs, upstream = _start(stage, upstream, processes, messages)
            for end, value in inputs:
                threads.append(threading.Thread(target=_feed, args=(end, value, failures), daemon=True))
                threads[-1].start()
        try:
            result = _result(upstream, stages[-1][1])
        except EOFError as error:
            cut = error
        for process in processes:
            process.wait()
    except BaseException:
        for process in processes:
            process.terminate()
        raise
    finally:
        if upstream != subprocess.DEVNULL:
            upstream.close()
        for process in processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for thread in threads:
            thread.join()
        texts = []
        for file in messages:
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
            file.close()
    if failures:
        raise failures[0]
    _report([stage[0] for stage in stages], [process.returncode for process in processes], texts, result)
    if cut:
        raise cut
    return result


def _start(stage, upstream, processes: list, messages: list):
    """Start a program; return the pipes that wait for its arrays, as (descriptor, value), and its standard output."""
    program, options, operands = stage
    reads: list = []
    inputs: list = []

    def pass_array(value):
        value = value if isinstance(value, bytes) else _check(program, value)
        read, write = os.pipe()
        reads.append(read)
        inputs.append((write, value))
        return f"/dev/fd/{read}"

    try:
        words = _command(program, options, operands, pass_array)
        messages.append(tempfile.TemporaryFile())
        processes.append(subprocess.Popen(words, executable=_find(program), stdin=upstream, stdout=subprocess.PIPE,
                                          stderr=messages[-1], pass_fds=reads))
    except BaseException:
        for write, _ in inputs:
            os.close(write)
        raise
    finally:
        for read in reads:
            os.close(read)
        if upstream != subprocess.DEVNULL:
            upstream.close()
    return inputs, processes[-1].stdout


def _report(programs: list, statuses: list, texts: list, result):
    """Raise what failed first, else issue the warnings."""
    sigpipe = -13  # a later program has ended: its status counts
    for program, status, text in zip(programs, statuses, texts):
        lines = text.splitlines()
        failed = status not in (0, sigpipe)
        marks = [f"{program}: {kind}: " for kind in (["error", "hint"] if failed else ["warning", "hint"])]
        said = [line for line in lines if line.startswith(tuple(marks))]
        if failed:
            reason = f"ended by signal {-status}" if status < 0 else f"exit status {status}"
            printed = [result] if isinstance(result, str) else []
            raise VoxpipeError("\n".join(said or lines or [f"{program}: {reason}", *printed]), program, status, result)
        for line in said:
            warnings.warn(line, VoxpipeWarning, stacklevel=4)
        for line in lines:
            if line not in said:
                print(line, file=sys.stderr)


def _result(stream: BinaryIO, options: dict):
    """Return what a program writes: a stack as an array, JSON as a dictionary, other text as a string, or bytes."""
    head = b"" if options.get("--raw-out") else stream.read(16)
    if head[:4] in (b"II*\0", b"II+\0"):
        return _read_stack(stream, head)
    data = head + stream.read()
    if options.get("--raw-out") or head.startswith(b"\x89PNG"):
        return data
    if not data:
        return options.get("--output", options.get("-o"))
    text = data.decode()
    return json.loads(text) if options.get("--json") else text


# The stream TIFF of voxpipe-stack(5): directory, samples, directory, samples, strictly forwards.

def _check(program: str, value) -> np.ndarray:
    """Return an array that can be written, or raise."""
    array = np.asanyarray(value)
    if array.dtype == bool:
        array = Stack(np.asarray(array).view(np.uint8), getattr(array, "meta", None))
    if array.dtype.str[1:] not in "u1 u2 u4 u8 i1 i2 i4 i8 f4 f8".split():
        raise TypeError(f"{program}: samples of type {array.dtype}: expected bool, integers, float32 or float64")
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"{program}: a masked array: fill it or give its data")
    if array.ndim < 2 or array.size == 0:
        raise ValueError(f"{program}: array of shape {array.shape}: expected two axes or more, none of them empty")
    _description(array)
    return array


def _description(array: np.ndarray) -> bytes:
    """Return the metadata as text."""
    meta = {"unit": "mm", **getattr(array, "meta", {})}
    axes = meta.get("axes") or {2: "x y", 3: "x y z"}.get(array.ndim, "")
    axes = axes.split() if isinstance(axes, str) else list(axes)
    if len(axes) != array.ndim:
        raise ValueError(f"array of shape {array.shape}, axes '{' '.join(axes)}': expected a name for each axis, "
                         "fastest first, as in Stack(array, axes='x y channel z')")
    meta["axes"] = tuple(axes)
    meta["sizes"] = array.shape[-3::-1] if array.ndim > 3 else None
    if "voxel" not in meta:
        del meta["unit"]
    lines = ["voxpipe = 1"]
    for key, value in meta.items():
        for one in value if isinstance(value, list) else [value]:
            if one is not None:
                one = one if isinstance(one, str) else " ".join(map(str, np.ravel(one)))
                lines.append(f"{key} = {one}")
    if any("\n" in line for line in lines):
        raise ValueError("metadata with a line break")
    return "".join(line + "\n" for line in lines).encode() + b"\0"


def _feed(descriptor: int, value, failures: list):
    """Write bytes, or an array as a stack, into a pipe and close it."""
    try:
        with open(descriptor, "wb") as file:
            if isinstance(value, bytes):
                file.write(value)
            else:
                _write_stack(file, value)
    except BrokenPipeError:
        pass  # the program has all it wants
    except BaseException as error:
        failures.append(error)


def _write_stack(file: BinaryIO, array: np.ndarray):
    """Write an array as a BigTIFF in stream order."""
    stored = array.dtype.newbyteorder("<")
    ny, nx = array.shape[-2:]
    size = ny * nx * stored.itemsize
    count = array.size // (ny * nx)
    samples = np.asarray(array)
    position = 16
    file.write(struct.pack("<2s3HQ", b"II", 43, 8, 0, position))
    for page, index in enumerate(np.ndindex(array.shape[:-2])):
        text = _description(array) if page == 0 else b""
        tags = [(256, 4, nx), (257, 4, ny), (258, 3, 8 * stored.itemsize), (259, 3, 1), (262, 3, 1), (270, 2, 0),
                (273, 16, 0), (277, 3, 1), (278, 4, ny), (279, 16, size), (297, 3, 0),
                (339, 3, "uif".index(stored.kind) + 1)]
        tags = [tag for tag in tags if (tag[0] != 270 or text) and (tag[0] != 297 or page < 65536)]
        texts = position + 8 + 20 * len(tags) + 8
        strip = (texts + len(text) + 15) // 16 * 16
        following = (strip + size + 15) // 16 * 16
        directory = struct.pack("<Q", len(tags))
        for tag, kind, value in tags:
            value = {270: texts, 273: strip, 297: page + ((count if count < 65536 else 0) << 16)}.get(tag, value)
            directory += struct.pack("<HHQQ", tag, kind, {270: len(text), 297: 2}.get(tag, 1), value)
        last = page == count - 1
        file.write((directory + struct.pack("<Q", 0 if last else following) + text).ljust(strip - position, b"\0"))
        file.write(np.ascontiguousarray(samples[index], stored).data)
        if not last:
            file.write(bytes(following - strip - size))
        position = following


def _read_stack(file, head: bytes) -> Stack:
    """Read a TIFF or BigTIFF in stream order, of which `head` is the first 16 bytes."""
    big = head[2:3] == b"+"
    number, entry, entry_size = ("<Q", "<HHQ", 20) if big else ("<I", "<HHI", 12)
    position = len(head)
    following, = struct.unpack_from(number, head, 8 if big else 4)
    samples, meta, page = np.empty(0), {}, 0

    def read_to(end):
        nonlocal position
        data = file.read(end - position)
        position += len(data)
        if position != end:
            raise EOFError("truncated result")
        return data

    while following:
        read_to(following)
        length, = struct.unpack("<Q" if big else "<H", read_to(position + (8 if big else 2)))
        directory = read_to(position + length * entry_size)
        following, = struct.unpack(number, read_to(position + struct.calcsize(number)))
        tags, at = {}, position
        for i in range(length):
            tag, kind, count = struct.unpack_from(entry, directory, i * entry_size)
            field = directory[i * entry_size + struct.calcsize(entry):(i + 1) * entry_size]
            value = int.from_bytes(field[:2] if kind == 3 and count == 1 else field, "little")
            tags[tag] = (value, count, field)
        texts = read_to(tags[273][0])
        if page == 0:
            nx, ny = tags[256][0], tags[257][0]
            stored = np.dtype(f"<{'uif'[tags[339][0] - 1]}{tags[258][0] // 8}")
            pages = struct.unpack("<HH", tags[297][2][:4])[1] if 297 in tags else 0
            samples = np.empty((pages or 1, ny, nx), stored)
            if 270 in tags:
                value, count, _ = tags[270]
                meta = _metadata(texts[value - at:value - at + count])
        elif page == len(samples):  # the number of pages was not known
            samples.resize((2 * page, ny, nx), refcheck=False)
        if file.readinto(samples[page].data.cast("B")) != tags[279][0]:
            raise EOFError("truncated result")
        position += tags[279][0]
        page += 1
    file.read()
    samples.resize((page, ny, nx), refcheck=False)
    axes = meta.get("axes", "x y z" if page > 1 else "x y").split()
    sizes = [int(n) for n in meta.pop("sizes", "").split()] or [page]
    shape = tuple(sizes[::-1]) if len(axes) == len(sizes) + 2 else () if len(axes) == 2 and page == 1 else (page,)
    return Stack(samples.reshape(shape + (ny, nx)), meta)


def _metadata(description: bytes) -> dict:
    """Return the metadata lines of an image description."""
    text = description.rstrip(b"\0").decode(errors="replace").partition("# voxpipe = 1\n")[2]
    meta: dict = {"history": []}
    for line in text.splitlines():
        key, _, value = line[2:].partition(" = ")
        if key == "history" or key in meta:
            old = meta[key] if isinstance(meta[key], list) else [meta[key]]
            meta[key] = [*old, value]
        else:
            meta[key] = value
    if not meta["history"]:
        del meta["history"]
    return meta
