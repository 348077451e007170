"""Tests of `maieutic verify`: every change of a table cell is reported, and a hostile archive cannot exhaust memory."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from conftest import absent
from maieutic.core.errors import UserError
from maieutic.core.files import sha256_of
from maieutic.plan.provenance import CodeState
from maieutic.record import received, signing
from maieutic.record import verify as verifying
from maieutic.record.file_comparison import compare_report_files, file_difference
from maieutic.record.finished_run import plan_of_run
from maieutic.record.planned_jobs import jobs_of_run
from maieutic.record.received import MANIFEST, SIGNATURE, unpack_run
from maieutic.record.share import share
from maieutic.record.verify import verify
from maieutic.run_plan import unchecked_plan
from shipped import shipped
from test_record import COMMIT, SCORES, at_the_runs_commit, planned_once, rewrite, run, shared, update_checksum

# Fixtures of test_record.py: a finished run, the same run as shared, a checkout at the run's commit.
__all__ = ["at_the_runs_commit", "planned_once", "run", "shared"]
TABLE = "results/report/scores.csv"


# every cell -----------------------------------------------------------------------------------------------------------


def other_cells(cell: str) -> Iterator[str]:
    """Yield a slightly different value of a cell: the smallest reported change of a number, or another text."""
    try:
        number = float(cell)
    except ValueError:
        yield f"{cell}x" if cell else "0"
        return
    yield repr(number + max(2e-9, abs(number) * 2e-12))


def altered_tables(path: Path) -> Iterator[tuple[str, str]]:
    """Yield every copy of a CSV file with one changed cell, and a description of the change."""
    with open(path, encoding="utf-8", newline="") as handle:
        rows = list(csv.reader(handle))
    for index, row in enumerate(rows):
        for column, cell in enumerate(row):
            for alternative in other_cells(cell):
                cells = [*row[:column], alternative, *row[column + 1 :]]
                text = io.StringIO()
                csv.writer(text, lineterminator="\n").writerows([*rows[:index], cells, *rows[index + 1 :]])
                yield text.getvalue(), f"{path.name}, row {index}, column {column}: {cell!r} as {alternative!r}"


@pytest.mark.slow
def test_no_cell_of_a_table_is_changed_unseen(run: Path, tmp_path: Path) -> None:
    """Compare each table of the run, as the recomputed one, with every copy that has one changed cell."""
    tables = sorted([*run.glob("*.csv"), *(run / "tables").glob("*.csv")])
    tried, unseen = 0, []
    for path in tables:
        for text, place in altered_tables(path):
            copy = tmp_path / path.name
            copy.write_text(text, encoding="utf-8", newline="")
            tried += 1
            if file_difference(copy, path) is None:
                unseen.append(place)
    assert not unseen and tried > 5000, (tried, unseen[:5])
    print(f"{tried} changed cells of {len(tables)} tables, all reported")


@pytest.mark.slow
def test_no_cell_of_the_parquet_table_is_changed_unseen(run: Path, tmp_path: Path) -> None:
    table = pd.read_parquet(run / "scores.parquet")
    schema = pq.read_schema(run / "scores.parquet")
    tried = 0
    for column, name in enumerate(table.columns):
        for row in range(0, len(table), 9):
            changed = table.copy()
            cell = changed.iloc[row, column]
            if isinstance(cell, bool) or str(table[name].dtype) == "bool":
                changed.iloc[row, column] = not cell
            elif isinstance(cell, str) or str(table[name].dtype) in {"object", "str"}:
                changed.iloc[row, column] = f"{cell}x"
            else:
                changed.iloc[row, column] = (
                    1 if pd.isna(cell) else cell + 1 if "nt" in str(table[name].dtype) else cell + 2e-9
                )
            changed.to_parquet(tmp_path / "scores.parquet", index=False)
            assert file_difference(tmp_path / "scores.parquet", run / "scores.parquet"), (name, row)
            tried += 1
    assert tried > 400 and schema.names == list(table.columns)


@pytest.mark.parametrize(("why", "change"), [
    ("rows in another order", lambda rows: [rows[0], *reversed(rows[1:])]),
    ("a missing row", lambda rows: rows[:-1]),
    ("a duplicate row", lambda rows: [*rows, rows[-1]]),
    ("two column names swapped", lambda rows: [[*rows[0][:1], rows[0][2], rows[0][1], *rows[0][3:]], *rows[1:]]),
    ("the tutors' column reversed", lambda rows: [rows[0], *([*row[:2], other[2], *row[3:]] for row, other in zip(rows[1:], rows[:0:-1], strict=True))]),
    ("an extra cell", lambda rows: [rows[0], [*rows[1], "1"], *rows[2:]]),
    ("only the header", lambda rows: rows[:1]),
    ("an empty table", lambda rows: []),
])  # fmt: skip
def test_a_rearranged_table_is_reported(
    why: str, change: Callable[[list[list[str]]], list[list[str]]], run: Path, tmp_path: Path
) -> None:
    with open(run / "scores.csv", encoding="utf-8", newline="") as handle:
        rows = list(csv.reader(handle))
    with open(tmp_path / "scores.csv", "w", encoding="utf-8", newline="") as handle:
        csv.writer(handle, lineterminator="\n").writerows(change(rows))
    assert file_difference(tmp_path / "scores.csv", run / "scores.csv"), why


def test_first_and_second_tutor_are_not_exchanged_unseen(shared: Path, tmp_path: Path) -> None:
    """The swap would turn the winner into the loser."""
    folder = tmp_path / "run"
    shutil.copytree(shared, folder)
    path = folder / "results/report/differences.csv"
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    table[["first", "second"]] = table[["second", "first"]].to_numpy()
    table.to_csv(path, index=False)
    update_checksum(folder, "results/report/differences.csv")
    with pytest.raises(UserError, match=r"was altered: differences\.csv: \d+ extra rows and \d+ missing rows"):
        verify(folder)


def test_what_the_page_says_cannot_be_changed(shared: Path, tmp_path: Path) -> None:
    """Change the data of the page's scripts and a chart, and add a table."""
    folder = tmp_path / "run"
    shutil.copytree(shared, folder)
    [chart, *_] = sorted((folder / "results/report/figures").glob("*.svg"))
    picture = str(chart.relative_to(folder))
    rewrite(chart, lambda text: text.replace("<desc>", "<desc>Better. ", 1))
    page = "results/report/index.html"
    rewrite(folder / page, lambda text: text.replace("always-0", "always-1", 1))
    (folder / "results/report/tables/more.csv").write_text("a\n1\n")
    for name in (picture, page):
        update_checksum(folder, name)
    added = "results/report/tables/more.csv"
    with open(folder / MANIFEST, "a", encoding="utf-8") as handle:
        handle.write(f"{received.sha256_of(folder / added)}  {added}\n")
    with pytest.raises(UserError) as caught:
        verify(folder)
    for fault in (
        f"figures/{chart.name}: line",
        "index.html: line",
        "tables/more.csv: the recomputed report has no such file",
    ):
        assert f"was altered: {fault}" in str(caught.value), fault


def test_a_run_of_another_commit_is_not_called_altered(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(verifying, "code_state", lambda _: CodeState(commit="d" * 40))
    verify(shared)
    assert (
        f"the run was made with commit {COMMIT}, but this checkout is at {'d' * 40}; this checkout reproduces the run's numbers"
        in caplog.text
    )
    folder = tmp_path / "a run's"
    shutil.copytree(shared, folder)
    rewrite(folder / TABLE, lambda text: text.replace(",1.0,", ",0.9,", 1))
    update_checksum(folder, TABLE)
    with pytest.raises(UserError) as caught:
        verify(folder)
    assert "altered" not in str(caught.value) and "scores.csv: row" in str(caught.value)
    assert f"git worktree add ../maieutic-ccccccc {COMMIT}" in caught.value.fix
    assert f"maieutic verify '{tmp_path}/a run'\"'\"'s')" in caught.value.fix, "quoted for a shell"


def test_an_edited_checkout_proves_nothing(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        verifying, "code_state", lambda _: CodeState(commit=COMMIT, edited=["workflow/x.py"], n_edited=1)
    )
    folder = tmp_path / "run"
    shutil.copytree(shared, folder)
    rewrite(folder / TABLE, lambda text: text.replace(",1.0,", ",0.9,", 1))
    update_checksum(folder, TABLE)
    with pytest.raises(UserError, match=r"this checkout has 1 edited files, such as workflow/x\.py"):
        verify(folder)


def test_what_is_only_checksummed_is_listed(shared: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    verify(shared)
    recomputed_line, checksum_line = caplog.messages[-2:]
    assert recomputed_line.startswith("recomputed, with the same values in every column: results/grades (")
    assert checksum_line.startswith("checked by checksum alone: README.md") and "results/replies (" in checksum_line
    file_count = len((shared / MANIFEST).read_text(encoding="utf-8").splitlines())
    counts = [int(number) for number in re.findall(r"\((\d+)\)", f"{recomputed_line} {checksum_line}")]
    single_files = [
        part
        for line in (recomputed_line, checksum_line)
        for part in line.partition(": ")[2].split(", ")
        if not part.endswith(")")
    ]
    assert sum(counts) + len(single_files) == file_count, "every file is in one of the two lines"


# signatures -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("ssh-keygen"):
        absent("ssh-keygen", "run apt install openssh-client")
    folder = tmp_path_factory.mktemp("keys")
    for name in ("own", "other"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    return folder


@pytest.mark.slow
def test_a_signed_run_is_checked_by_its_key(
    run: Path, keys: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    share(run=run, out=tmp_path / "run.zip", sign=keys / "own")
    verify(tmp_path / "run.zip", signed_by=keys / "own.pub")
    assert "signed by a key in" in caplog.text
    verify(tmp_path / "run.zip")
    assert "signed (to check the signer, pass --signed-by KEY.pub)" in caplog.text
    with pytest.raises(UserError, match=rf"{SIGNATURE} is not a valid signature by a key in"):
        verify(tmp_path / "run.zip", signed_by=keys / "other.pub")
    with unpack_run(tmp_path / "run.zip") as (folder, _):
        shutil.copytree(folder, tmp_path / "forged")
    rewrite(tmp_path / "forged/README.md", lambda text: f"{text}\nmore")
    update_checksum(tmp_path / "forged", "README.md")
    with pytest.raises(UserError, match="is not a valid signature by a key in"):
        verify(tmp_path / "forged", signed_by=keys / "own.pub")


def test_a_signature_for_another_purpose_is_invalid(shared: Path, keys: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(shared, folder)
    with pytest.raises(UserError, match=f"expected the signature {SIGNATURE}, found none"):
        verify(folder, signed_by=keys / "own.pub")
    subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-f", keys / "own", "-n", "file", folder / MANIFEST], check=True)
    with pytest.raises(UserError, match="is not a valid signature by a key in"):
        verify(folder, signed_by=keys / "own.pub")


def test_a_key_that_cannot_sign_is_reported(
    run: Path, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="expected an OpenSSH private key, found no file"):
        share(run=run, out=tmp_path / "out", sign=tmp_path / "none")
    (tmp_path / "text").write_text("no key")
    with pytest.raises(UserError, match="the manifest cannot be signed"):
        share(run=run, out=tmp_path / "out", sign=tmp_path / "text")
    with pytest.raises(UserError, match="expected one public key per line"):
        signing.read_public_keys(tmp_path / "text")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"ssh-keygen: not found on the PATH; .*\. Fix: install OpenSSH's client"):
        share(run=run, out=tmp_path / "out", sign=keys / "own")
    assert not (tmp_path / "out").exists()


# hostile archives -----------------------------------------------------------------------------------------------------

CHILD = """
import sys
from pathlib import Path
from maieutic.core.errors import UserError
from maieutic.core.files import sha256_of
from maieutic.record.verify import verify
try:
    verify(Path(sys.argv[1]))
except UserError as error:
    print(error.lines)
status = Path("/proc/self/status").read_text()
print(int(status.partition("VmHWM:")[2].split()[0]) // 1024)
"""


def verify_in_subprocess(place: Path) -> tuple[str, int, float]:
    """Verify a received run in a new process; return its output, its peak memory in MB and its time in seconds."""
    start = time.monotonic()
    process = subprocess.run(
        [sys.executable, "-c", CHILD, place], capture_output=True, text=True, timeout=120, check=True,
        env={**os.environ, "PYTHONPATH": "workflow"},
    )  # fmt: skip
    *lines, memory = process.stdout.splitlines()
    return "\n".join(lines), int(memory), time.monotonic() - start


def zipped(folder: Path, out: Path, compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(out, "w", compression) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder))
    return out


def replace_file(folder: Path, name: str, write: Callable[[Path], object]) -> None:
    """Change or add a file of a received run, and write its checksum into the manifest."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    write(folder / name)
    lines = [line for line in (folder / MANIFEST).read_text().splitlines() if not line.endswith(f"  {name}")]
    lines.append(f"{received.sha256_of(folder / name)}  {name}")
    (folder / MANIFEST).write_text("".join(f"{line}\n" for line in lines))


def write_sparse(size: int) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(b"") is None or os.truncate(path, size)


def large_claimed_sizes(folder: Path, place: Path) -> Path:
    """Return an archive whose file list claims 4 GB for each of two files."""
    out = zipped(folder, place / "run.zip")
    data = bytearray(out.read_bytes())
    for entry in list(re.finditer(b"PK\x01\x02", bytes(data)))[:2]:
        struct.pack_into("<I", data, entry.start() + 24, 0xFFFFFFF0)
    out.write_bytes(bytes(data))
    return out


def file_larger_than_claimed(folder: Path, place: Path) -> Path:
    """Return an archive with a file of 300 MB for which its file list claims a hundred bytes."""
    replace_file(folder, "zeros.bin", write_sparse(300 << 20))
    out = zipped(folder, place / "run.zip")
    data = bytearray(out.read_bytes())
    offset = next(
        entry.start()
        for entry in re.finditer(b"PK\x01\x02", bytes(data))
        if data[entry.start() + 46 :].startswith(b"zeros.bin")
    )
    struct.pack_into("<I", data, offset + 24, 100)
    out.write_bytes(bytes(data))
    return out


def large_sparse_file(folder: Path, place: Path) -> Path:
    replace_file(folder, "zeros.bin", lambda path: path.write_bytes(b""))
    os.truncate(folder / "zeros.bin", 5 << 30)
    return folder


def with_entries(entries: Callable[[], Iterable[tuple[str | zipfile.ZipInfo, bytes]]]) -> Callable[[Path, Path], Path]:
    """Return a function that makes an archive of the run with more entries."""

    def make(folder: Path, place: Path) -> Path:
        out = zipped(folder, place / "run.zip")
        with zipfile.ZipFile(out, "a") as archive:
            for entry, content in entries():
                archive.writestr(entry, content)
        return out

    return make


def link_entry() -> Iterator[tuple[zipfile.ZipInfo, bytes]]:
    info = zipfile.ZipInfo("link")
    info.external_attr = 0o120777 << 16
    yield info, b"/etc/passwd"


def with_file(name: str, text: Callable[[], str], is_zipped: bool = True) -> Callable[[Path, Path], Path]:
    """Return a function that replaces a file of the run, whose checksum is right, and makes an archive if `is_zipped`."""

    def make(folder: Path, place: Path) -> Path:
        replace_file(folder, name, lambda path: path.write_text(text()))
        return zipped(folder, place / "run.zip") if is_zipped else folder

    return make


def large_file_list(folder: Path, place: Path) -> Path:
    """Return an archive whose end record claims a file list of 3 GB."""
    out = zipped(folder, place / "run.zip")
    data = bytearray(out.read_bytes())
    struct.pack_into("<I", data, data.rfind(b"PK\x05\x06") + 12, 3 << 30)
    out.write_bytes(bytes(data))
    return out


def fifo(folder: Path, place: Path) -> Path:
    os.mkfifo(folder / "results/report/pipe")
    return folder


def manifest_fifo(folder: Path, place: Path) -> Path:
    (folder / MANIFEST).unlink()
    os.mkfifo(folder / MANIFEST)
    return folder


def link_to_device(folder: Path, place: Path) -> Path:
    (folder / "zero").symlink_to("/dev/zero")
    return folder


def fifo_as_archive(folder: Path, place: Path) -> Path:
    os.mkfifo(place / "run.zip")
    return place / "run.zip"


def deep_folders(folder: Path, place: Path) -> Path:
    deep = folder
    for _ in range(60):
        deep /= "d" * 20
    deep.mkdir(parents=True)
    (deep / "x").write_text("x")
    return folder


def encrypted_files(folder: Path, place: Path) -> Path:
    out = zipped(folder, place / "run.zip")
    data = bytearray(out.read_bytes())
    for offset in (entry.start() for entry in re.finditer(b"PK\x01\x02", bytes(data))):
        data[offset + 8] |= 1
    out.write_bytes(bytes(data))
    return out


def damaged(compression: int) -> Callable[[Path, Path], Path]:
    def make(folder: Path, place: Path) -> Path:
        out = zipped(folder, place / "run.zip", compression)
        data = bytearray(out.read_bytes())
        for offset in range(2000, 2600):
            data[offset] ^= 0xFF
        out.write_bytes(bytes(data))
        return out

    return make


def with_manifest(content: bytes) -> Callable[[Path, Path], Path]:
    def make(folder: Path, place: Path) -> Path:
        (folder / MANIFEST).write_bytes(content)
        return folder

    return make


def tar_archive(folder: Path, place: Path) -> Path:
    with tarfile.open(place / "run.zip", "w") as archive:
        archive.add(folder, "run")
    return place / "run.zip"


HOSTILE_RUNS: list[tuple[Callable[[Path, Path], Path], str]] = [
    (large_claimed_sizes, r"expected at most 4,096 MB of files, found 8,19\d MB"),
    (file_larger_than_claimed, r"run\.zip: cannot be unpacked: BadZipFile"),
    (large_sparse_file, r"expected at most 4,096 MB of files, found 5,12\d MB"),
    (with_entries(lambda: ((f"more/{number}", b"") for number in range(110_000))), r"it has 110,\d{3} files and folders, more than 100,000"),
    (large_file_list, r"its list of files is 3,072 MB; the limit is 32 MB"),
    (fifo, "results/report/pipe is not a regular file"), (manifest_fifo, f"{MANIFEST} is not a regular file"),
    (link_to_device, "zero is a link"), (with_entries(link_entry), "link is a link"),
    (fifo_as_archive, "expected a folder or a .zip file"), (deep_folders, "is more than 32 folders deep"),
    (with_entries(lambda: [("d/" * 2000 + "x", b"x")]), "is more than 32 folders deep"),
    (encrypted_files, "is encrypted"),
    (damaged(zipfile.ZIP_LZMA), "cannot be unpacked|was altered"),
    (damaged(zipfile.ZIP_BZIP2), "cannot be unpacked|was altered"),
    (damaged(zipfile.ZIP_DEFLATED), "cannot be unpacked|was altered"),
    (with_file("results/replies/mathtutorbench/always-0.jsonl", lambda: "[" + "{}," * (70 << 20) + "{}]\n"), "always-0.jsonl: line 1 has more than 16 MB"),
    (with_file(SCORES, lambda: "[" + "{}," * (30 << 20) + "{}]"), "always-0.json: it has more than 4,000,000 values"),
    (with_file(SCORES, lambda: "[" * 30_000 + "]" * 30_000), "always-0.json: RecursionError"),
    (with_file("results/replies/mathtutorbench/always-0.jsonl", lambda: '{"a":' * 400_000 + "1" + "}" * 400_000 + "\n", is_zipped=False), "always-0.jsonl"),
    (with_file(TABLE, lambda: "a," * (200 << 20)), "scores.csv: it has 400 MB, more than 64 MB"),
    (with_file("results/report/config.yaml", lambda: "a: [" + "[], " * (40 << 20) + "]"), "config.yaml: the file exceeds 8 MB|more than 8 MB"),
    (with_file("results/report/config.yaml", lambda: "[" * 100_000, is_zipped=False), "nested more than 64 levels deep"),
    (with_entries(lambda: [("\x1b[2Jx", b"x")]), "contains a control character"),
    (with_manifest(b""), f"{MANIFEST}, line 1: expected a SHA-256 and a name, found ''"),
    (with_manifest(bytes(range(11, 256)) * 4), f"{MANIFEST}, line 1: expected a SHA-256 and a name, found '.x0b"),
    (with_manifest(bytes(range(256))), f"{MANIFEST}, line 1: expected a SHA-256 and a name, found '.x00"),
    (tar_archive, "expected a folder or a .zip file"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("make", "message"), HOSTILE_RUNS, ids=[message for _, message in HOSTILE_RUNS])
def test_a_hostile_archive_is_reported_in_one_line(
    make: Callable[[Path, Path], Path], message: str, shared: Path, tmp_path: Path
) -> None:
    """Verification takes less than 1 GB of memory and 30 seconds."""
    shutil.copytree(shared, tmp_path / "run")
    output, memory, seconds = verify_in_subprocess(make(tmp_path / "run", tmp_path))
    assert re.search(message, output) and "Traceback" not in output, output[:2000]
    assert len(output.splitlines()) <= 2 and len(output) < 3000, output[:2000]
    assert memory < 1000 and seconds < 30, (memory, seconds)
    shutil.rmtree(tmp_path / "run", ignore_errors=True)


def test_a_larger_run_requires_a_higher_limit(shared: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--most-mb"):
        verify(shared, most_mb=0.1)


def test_nothing_is_unpacked_before_it_is_counted(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = zipped(shared, tmp_path / "run.zip")
    with zipfile.ZipFile(out, "a") as archive:
        archive.writestr("added", b"x")
    with pytest.raises(UserError, match="added was added"):
        verify(out)
    monkeypatch.setattr(zipfile.ZipFile, "extractall", lambda *_: pytest.fail("unpacked"))
    with pytest.raises(UserError, match="--most-mb"):
        verify(out, most_mb=0.1)


def test_a_recomputed_file_is_compared_even_if_it_was_deleted(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "own")
    (tmp_path / "own/trust.csv").unlink()
    (tmp_path / "own/tables/more.csv").write_text("a\n")
    assert compare_report_files(tmp_path / "own", run) == [
        "trust.csv: not found",
        "tables/more.csv: the recomputed report has no such file",
    ]


# nothing of a received run is executed --------------------------------------------------------------------------------

CANARY = "canary.txt"


def with_yte(folder: Path) -> None:
    """Snakemake evaluates a configuration file with this key as a template."""
    text = f"__use_yte__: true\n__definitions__:\n  - open({str(folder.parent / CANARY)!r}, 'w').close()\n"
    rewrite(folder / "results/report/config.yaml", lambda config: text + config)


def with_interpreter(folder: Path) -> None:
    """As a shell, the interpreter would run the file named `maieutic` in the working folder."""
    (folder / "maieutic").write_text(f"touch {folder.parent / CANARY}\n", encoding="utf-8")
    rewrite(
        folder / "results/report/config.yaml",
        lambda config: replace_key(config, "interpreters", "{driver: /bin/bash, serve: /bin/bash}"),
    )


def with_snakefile(folder: Path) -> None:
    for name in (
        "Snakefile",
        "workflow/Snakefile",
        "profiles/default/config.yaml",
        "resources/benchmarks/mathtutorbench/x.py",
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"open({str(folder.parent / CANARY)!r}, 'w').close()\n", encoding="utf-8")


def with_missing_data_dir(folder: Path) -> None:
    rewrite(folder / "results/report/config.yaml", lambda config: replace_key(config, "data_dir", "/nonexistent/data"))


def replace_key(config: str, key: str, value: str) -> str:
    """Replace a top-level key of a configuration, with everything below it."""
    return re.sub(rf"(?m)^{key}:.*\n(?:[ -].*\n)*", "", config) + f"{key}: {value}\n"


@pytest.mark.parametrize("attack", [with_yte, with_interpreter, with_snakefile, with_missing_data_dir])
@pytest.mark.usefixtures("at_the_runs_commit")
def test_nothing_of_a_received_run_is_executed(
    attack: Callable[[Path], None], shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "received"
    shutil.copytree(shared, folder)
    attack(folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    (folder / MANIFEST).write_text(
        "".join(f"{sha256_of(path)}  {path.relative_to(folder)}\n" for path in files), encoding="utf-8"
    )
    profile = tmp_path / "profile"
    profile.mkdir()
    (profile / "config.yaml").write_text("executor: none\nforceall: true\n", encoding="utf-8")
    monkeypatch.setenv("SNAKEMAKE_PROFILE", str(profile))
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with contextlib.suppress(UserError):
        verify(folder)
    assert not (tmp_path / CANARY).exists()
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before, "verify only reads"


@pytest.mark.usefixtures("at_the_runs_commit")
def test_a_run_with_a_data_folder_of_its_sender_is_recomputed(shared: Path, tmp_path: Path) -> None:
    folder = tmp_path / "received"
    shutil.copytree(shared, folder)
    with_missing_data_dir(folder)
    update_checksum(folder, "results/report/config.yaml")
    jobs = jobs_of_run(plan_of_run(folder / "results/report"), folder / "results")
    recomputed = verifying.recompute_jobs(jobs, folder / "results")
    assert recomputed.faults == [] and SCORES in recomputed.names


def test_an_own_file_that_is_absent_leaves_out_only_what_reads_it(tmp_path: Path) -> None:
    """Plan a run twice whose files are complete apart from what is made of the user's own pairs."""
    pairs, results = tmp_path / "pairs.csv", tmp_path / "results"
    pairs.touch()
    results.mkdir()
    raw = shipped()
    raw["preferences"]["ours"] = {"loader": "table", "file": str(pairs), "title": "Ours", "licence": "CC BY 4.0"}
    raw["run"]["preferences"] = ["bridge", "ours"]
    plan = unchecked_plan(raw)
    complete = jobs_of_run(plan, results)
    folder_of_pairs = "preferences/ours"
    for path in {path for job in complete for path in (*job.inputs, *job.outputs) if path.startswith("results/")}:
        if folder_of_pairs not in path and not path.endswith("/ours.jsonl"):
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).touch()
    pairs.unlink()
    jobs = jobs_of_run(plan, results)
    assert sorted(job.outputs for job in jobs) == sorted(job.outputs for job in complete)
    incomplete = [job for job in jobs if job.missing]
    assert incomplete == [job for job in jobs if any(folder_of_pairs in path for path in job.inputs)]
    assert {job.rule for job in incomplete} >= {"validate_judge", "validate_reward_on_pairs"}
    assert any("bridge" in path for job in jobs if job.validates and not job.missing for path in job.inputs)
