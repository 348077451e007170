"""Tests of pictures: downloaded once over HTTP, checked, pinned, sent byte for byte, not kept in keys or prompts."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from httpserver import Quiet, chat, scripted, serving
from maieutic.config.cards import CARDS, read_card
from maieutic.config.datasets import Dataset, DatasetFile, Hub, PictureFields
from maieutic.config.models import HostedModel
from maieutic.core.errors import UserError
from maieutic.core.journal import Journal
from maieutic.core.records import Item, Picture, Reply, read_records
from maieutic.datasets.sources import read_source
from maieutic.preparation import pictures
from maieutic.preparation.fetch import FetchDataset, fetch_dataset
from maieutic.preparation.items import MakeItems, make_items
from maieutic.preparation.pictures import FetchPictures, fetch_pictures
from maieutic.replies.generate import RequestLimits, ask_tutor
from maieutic.serving.backends import JobFiles
from maieutic.serving.pictures import as_sent, with_pictures
from PIL import Image

DEMO = Path("resources/demo")
MULTIMODAL = MakeItems(benchmark="tutorbench", task="multimodal", form="csv", seed=1)
FIELDS = ["TASK_ID", "IMAGE_URL"]


def picture_bytes(colour: str, kind: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 6), colour).save(buffer, kind)
    return buffer.getvalue()


class Gallery(Quiet):
    """Server of pictures named by their colour, and of several kinds of failure."""

    requested: list[str] = []
    failures = 0

    def do_GET(self) -> None:
        kind = self.path.strip("/")
        type(self).requested.append(kind)
        if kind == "gone":
            self.send(404, b"")
        elif kind == "html":
            self.send(200, b"<html>please log in</html>")
        elif kind == "truncated":
            self.send_response(200)
            self.send_header("Content-Length", "5000")
            self.end_headers()
            self.wfile.write(picture_bytes("red"))
            self.close_connection = True
        elif kind == "cut":  # the length is right, but the picture is incomplete
            self.send(200, picture_bytes("red")[:40])
        elif kind == "busy" and type(self).failures < 2:
            type(self).failures += 1
            self.send(503, b"")
        elif kind == "bmp":
            self.send(200, picture_bytes("green", "BMP"))
        else:
            self.send(200, picture_bytes("blue" if kind == "busy" else kind))


@pytest.fixture
def gallery(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(pictures.time, "sleep", lambda _: None)
    Gallery.requested, Gallery.failures = [], 0
    with serving(Gallery) as address:
        yield address


def dataset(pin: str | None = None, **published: Any) -> Dataset:
    copy = DatasetFile(path="x/train.csv", sha256="0" * 64, records=1, pictures=pin, **published)
    return Dataset(
        title="t", licence="l", format="csv", fields=FIELDS, published=copy, pictures=PictureFields(address="IMAGE_URL")
    )


def write_table(folder: Path, addresses: list[str]) -> Path:
    path = folder / "train.csv"
    path.write_text(
        "TASK_ID,IMAGE_URL\n" + "".join(f"t{n},{address}\n" for n, address in enumerate(addresses)), encoding="utf-8"
    )
    return path


def fetch_beside(entry: Dataset, source: Path, folder: Path, out: Path) -> None:
    """Fetch the pictures of a published file in `folder` into the sub-folder `store`."""
    published = entry.published.model_copy(update={"path": Path(entry.published.path).name})
    job = FetchPictures(
        name="x", dataset=entry.model_copy(update={"published": published}), edition="published", data_dir=folder
    )
    fetch_pictures(job=job, source=source, demo_dir=DEMO, store=folder / "store", out=out)


def fetch_with_pin(entry: Dataset, source: Path, folder: Path) -> list[Picture]:
    """Fetch the pictures of a dataset, pin their list as the refusal asks, and return the list."""
    out = folder / "x.pictures.jsonl"
    try:
        fetch_beside(entry, source, folder, out)
    except UserError as error:
        if entry.published.pictures or "so the list of pictures must be pinned" not in str(error):
            raise
        pinned = entry.published.model_copy(update={"pictures": str(error).split()[-1]})
        return fetch_with_pin(entry.model_copy(update={"published": pinned}), source, folder)
    return read_records(out, Picture)


def fetch_addresses(folder: Path, addresses: list[str], pin: str | None = None) -> list[Picture]:
    return fetch_with_pin(dataset(pin), write_table(folder, addresses), folder)


def test_pictures_are_fetched_once_and_named_by_their_content(gallery: str, tmp_path: Path) -> None:
    addresses = [f"{gallery}/red", "", f"{gallery}/busy", f"{gallery}/bmp"]
    picture_list = fetch_addresses(tmp_path, addresses)
    assert [picture.record for picture in picture_list] == [0, 2, 3]
    assert [picture.origin for picture in picture_list] == ["address"] * 3
    assert {(picture.width, picture.height) for picture in picture_list} == {(8, 6)}
    for picture, data in zip(picture_list[:2], (picture_bytes("red"), picture_bytes("blue")), strict=True):
        assert picture.file == f"{hashlib.sha256(data).hexdigest()}.png"
        assert (tmp_path / "store" / str(picture.file)).read_bytes() == data
    assert str(picture_list[2].file).endswith(".png"), "a format that servers do not accept is converted to PNG"
    assert Gallery.requested.count("red") == 1, "the second try, with the pin, downloads nothing"
    request_count = len(Gallery.requested)
    fetch_addresses(tmp_path, addresses, hashlib.sha256((tmp_path / "x.pictures.jsonl").read_bytes()).hexdigest())
    assert len(Gallery.requested) == request_count


def test_a_picture_that_was_altered_on_disk_is_fetched_anew(gallery: str, tmp_path: Path) -> None:
    [picture] = fetch_addresses(tmp_path, [f"{gallery}/red"])
    (tmp_path / "store" / str(picture.file)).write_bytes(picture_bytes("blue"))
    assert fetch_addresses(tmp_path, [f"{gallery}/red"]) == [picture]
    assert (tmp_path / "store" / str(picture.file)).read_bytes() == picture_bytes("red")
    assert Gallery.requested.count("red") == 2


def test_a_missing_picture_is_requested_again(gallery: str, tmp_path: Path, monkeypatch: Any) -> None:
    [picture] = fetch_addresses(tmp_path, [f"{gallery}/gone"])
    assert picture.file is None
    monkeypatch.setattr(Gallery, "do_GET", lambda self: self.send(200, picture_bytes("red")))
    assert fetch_addresses(tmp_path, [f"{gallery}/gone"])[0].file


def test_two_datasets_share_a_store(gallery: str, tmp_path: Path) -> None:
    with Journal(tmp_path / "store" / pictures.FETCHED_JOURNAL.format("other"), pictures.FetchedPicture):
        assert fetch_addresses(tmp_path, [f"{gallery}/red"])[0].file


def test_a_phones_picture_keeps_its_bytes_and_a_transparent_one_gets_a_white_background(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 6), "red").save(
        buffer, "MPO", save_all=True, append_images=[Image.new("RGB", (8, 6))], exif=Image.Exif()
    )
    data, suffix, *size = pictures.verify_picture(buffer.getvalue())
    assert (data, suffix, size) == (buffer.getvalue(), "jpg", [8, 6])
    buffer = io.BytesIO()
    Image.new("RGBA", (2, 2), (0, 0, 0, 0)).save(buffer, "TIFF")
    data, suffix, *_ = pictures.verify_picture(buffer.getvalue())
    assert suffix == "png" and Image.open(io.BytesIO(data)).getpixel((0, 0)) == (255, 255, 255)


@pytest.mark.parametrize(
    ("kind", "reason"), [("gone", "the server answers 404"), ("html", "no picture"), ("cut", "no picture")]
)
def test_an_unavailable_picture_is_listed_with_the_reason(kind: str, reason: str, gallery: str, tmp_path: Path) -> None:
    picture_list = fetch_addresses(tmp_path, [f"{gallery}/{kind}", f"{gallery}/red"])
    assert picture_list[0].file is None and reason in str(picture_list[0].why_none) and picture_list[1].file


def test_a_broken_connection_ends_the_job_and_keeps_what_is_there(gallery: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the picture was not downloaded in 4 tries"):
        fetch_addresses(tmp_path, [f"{gallery}/red", f"{gallery}/truncated"])
    assert not (tmp_path / "x.pictures.jsonl").exists()
    assert fetch_addresses(tmp_path, [f"{gallery}/red"])[0].file and Gallery.requested.count("red") == 1


def test_unpinned_pictures_are_refused_with_the_pin(gallery: str, tmp_path: Path) -> None:
    source, out = write_table(tmp_path, [f"{gallery}/red"]), tmp_path / "x.pictures.jsonl"
    problem = r"datasets\.x\.published\.pictures: .*so the list of pictures must be pinned.* [0-9a-f]{64}"
    with pytest.raises(UserError, match=problem):
        fetch_beside(dataset(), source, tmp_path, out)
    with pytest.raises(UserError, match=f"expected a list of pictures with sha256 {'1' * 64}, found"):
        fetch_beside(dataset("1" * 64), source, tmp_path, out)
    assert not out.exists()


@pytest.mark.parametrize("path", ["../secret.png", "/etc/passwd", "images/none.png"])
def test_a_path_leads_nowhere_else(path: str, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "secret.png").write_bytes(picture_bytes("red"))
    with pytest.raises(UserError, match="the dataset's folder does not contain this picture"):
        fetch_addresses(inner, [path])


def write_shards(folder: Path, rows: list[list[dict[str, Any]]]) -> None:
    """Write a dataset in the hub's format: Parquet files with the bytes of each picture in a column."""
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    schema = pa.schema([("TASK_ID", pa.string()), ("IMAGE_URL", pa.string()), ("Image", kind)])
    folder.mkdir(parents=True)
    for number, records in enumerate(rows):
        pq.write_table(pa.Table.from_pylist(records, schema), folder / f"train-{number:05d}.parquet", row_group_size=1)


def test_parquet_files_are_one_source_and_hold_their_pictures(gallery: str, tmp_path: Path) -> None:
    embedded = {"bytes": picture_bytes("red"), "path": "a.png"}
    write_shards(
        tmp_path / "data/x",
        [
            [{"TASK_ID": "a", "IMAGE_URL": f"{gallery}/blue", "Image": embedded}, {"TASK_ID": "b"}],
            [{"TASK_ID": "c", "IMAGE_URL": f"{gallery}/gone"}],
        ],
    )
    hub = Hub(repo="o/x", revision="0" * 40, files="*.parquet")
    copy = DatasetFile(path="x/train-*.parquet", hub=hub, records=3)
    entry = Dataset(
        title="t", licence="l", format="parquet", fields=FIELDS, published=copy,
        pictures=PictureFields(address="IMAGE_URL", embedded="Image"),
    )  # fmt: skip
    out = tmp_path / "x.source"
    fetch_dataset(
        job=FetchDataset(name="x", dataset=entry, edition="published", data_dir=tmp_path / "data"),
        demo_dir=DEMO,
        out=out,
    )
    assert read_source(out, "parquet") == [
        {"TASK_ID": "a", "IMAGE_URL": f"{gallery}/blue"},
        {"TASK_ID": "b", "IMAGE_URL": None},
        {"TASK_ID": "c", "IMAGE_URL": f"{gallery}/gone"},
    ]
    picture_list = fetch_with_pin(entry, out, tmp_path)
    assert [(picture.record, picture.origin, bool(picture.file)) for picture in picture_list] == [
        (0, "embedded", True),
        (2, "address", False),
    ]
    assert picture_list[0].file == f"{hashlib.sha256(picture_bytes('red')).hexdigest()}.png"
    assert set(Gallery.requested) == {"gone"}, "a picture that the file contains is not downloaded"
    with pytest.raises(UserError, match="expected 4 records, found 3"):
        wrong = entry.model_copy(update={"published": copy.model_copy(update={"records": 4})})
        fetch_dataset(
            job=FetchDataset(name="x", dataset=wrong, edition="published", data_dir=tmp_path / "data"),
            demo_dir=DEMO,
            out=out,
        )


def test_parquet_without_the_column_asks_the_addresses(gallery: str, tmp_path: Path) -> None:
    source = tmp_path / "x.source"
    pq.write_table(pa.table({"TASK_ID": ["a", "b"], "IMAGE_URL": [f"{gallery}/red", None]}), source)
    fields = PictureFields(address="IMAGE_URL", embedded="Image")
    entry = dataset().model_copy(update={"format": "parquet", "pictures": fields})
    [picture] = fetch_with_pin(entry, source, tmp_path)
    assert picture.origin == "address" and picture.file and picture.record == 0


def test_a_record_that_should_have_a_picture_and_names_none_is_listed(gallery: str, tmp_path: Path) -> None:
    source = tmp_path / "x.csv"
    rows = [("a", f"{gallery}/red", "MULTIMODAL"), ("b", "", "MULTIMODAL"), ("c", f"{gallery}/blue", "TEXT")]
    source.write_text("TASK_ID,IMAGE_URL,BATCH\n" + "".join(f"{','.join(row)}\n" for row in rows), encoding="utf-8")
    fields = PictureFields(address="IMAGE_URL", where={"BATCH": "MULTIMODAL"})
    picture_list = fetch_with_pin(dataset().model_copy(update={"pictures": fields}), source, tmp_path)
    assert [(picture.record, bool(picture.file), picture.why_none) for picture in picture_list] == [
        (0, True, None),
        (1, False, "the record names no picture"),
    ]
    assert "blue" not in Gallery.requested


@pytest.mark.parametrize(("form", "content", "message"), [
    ("csv", b"a,b\n1,2\n1,2,3\n", r":3.*expected 2 cells"),
    ("csv", b"a,b\n1\n", r":2.*expected 2 cells"),
    ("csv", b'a,b\n1,"2\n', "the row cannot be parsed as CSV"),
    ("csv", b'a,b\n1,"2"3\n', "the row cannot be parsed as CSV"),
    ("csv", b"a,b\n\xff,2\n", "found invalid UTF-8"),
    ("parquet", b"PAR1 or so", "cannot be read as Parquet"),
    ("parquet", b"", "cannot be read as Parquet"),
])  # fmt: skip
def test_a_damaged_table_is_named_by_its_line(form: str, content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_source(path, form)


def test_a_table_keeps_its_lines_and_commas(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes('a,b\n"one, two","line 1\r\nline 2, ""quoted"""\nü,\n'.encode())
    assert read_source(path, "csv") == [{"a": "one, two", "b": 'line 1\r\nline 2, "quoted"'}, {"a": "ü", "b": ""}]


@pytest.fixture
def demo_items(tmp_path: Path) -> tuple[list[Item], Path]:
    """Return the demo's items with pictures, and the folder of the pictures."""
    entry = Dataset.model_validate(
        yaml.safe_load(Path("resources/registries/datasets.yaml").read_text(encoding="utf-8"))["datasets"]["tutorbench"]
    )
    source, list_path, store = DEMO / "tutorbench/train.csv", tmp_path / "p.jsonl", tmp_path / "store"
    fetch_pictures(
        job=FetchPictures(name="tutorbench", dataset=entry, edition="demo"),
        source=source, demo_dir=DEMO, store=store, out=list_path,
    )  # fmt: skip
    make_items(job=MULTIMODAL, source=source, pictures=[list_path], out=tmp_path / "items.jsonl")
    return read_records(tmp_path / "items.jsonl", Item), store


def ask(address: str, items: list[Item], folder: Path, **more: Any) -> list[Reply]:
    model = HostedModel(engine="hosted", model="m", base_url=f"{address}/v1", images=True, **more)
    card = read_card(CARDS / "tutorbench/multimodal.yaml")
    out = folder / "replies.jsonl"
    files = JobFiles(None, folder / "journal.jsonl", folder / "server.log", folder / "store")
    work = [(card, item) for item in items]
    ask_tutor("seer", model, work, RequestLimits(None, 1), files, out, folder / "prompts.jsonl")
    return read_records(out, Reply)


def test_a_server_gets_every_byte_and_no_file_of_ours_holds_them(
    demo_items: tuple[list[Item], Path], tmp_path: Path
) -> None:
    items, _ = demo_items
    recorder = scripted(lambda n, body: (200, chat({"content": "I see."}), {}))
    with serving(recorder) as address:
        replies = ask(address, items, tmp_path)
        assert ask(address, items, tmp_path) == replies and len(recorder.requests) == len(items) == 3
    sent = {}
    for _, _, body in recorder.requests:
        first = next(message["content"] for message in body["messages"] if message["role"] == "user")
        assert [part["type"] for part in first] == ["text", "image_url"]
        sent[first[0]["text"].split("\n")[0]] = first[1]["image_url"]["url"]
    for item in items:
        head, _, encoded = sent[item.vars["question"]].partition(";base64,")
        original = DEMO / "tutorbench/images" / f"{item.id}.png"
        assert head == "data:image/png" and base64.b64decode(encoded) == original.read_bytes()
    for name in ("prompts.jsonl", "journal.jsonl", "replies.jsonl", "items.jsonl"):
        assert "base64" not in (tmp_path / name).read_text(encoding="utf-8")
    files = [item.images[0] for item in items]
    assert all(file in (tmp_path / "prompts.jsonl").read_text(encoding="utf-8") for file in files)


def test_another_picture_is_another_request(demo_items: tuple[list[Item], Path], tmp_path: Path) -> None:
    items, _ = demo_items
    recorder = scripted(lambda n, body: (200, chat({"content": f"{n}"}), {}))
    with serving(recorder) as address:
        ask(address, items[:1], tmp_path)
        ask(address, [items[0].model_copy(update={"images": items[1].images})], tmp_path)
    assert len(recorder.requests) == 2


def test_an_altered_picture_is_never_sent(demo_items: tuple[list[Item], Path], tmp_path: Path) -> None:
    items, store = demo_items
    (store / items[0].images[0]).write_bytes(picture_bytes("red"))
    recorder = scripted(lambda n, body: (200, chat({"content": "I see."}), {}))
    with (
        serving(recorder) as address,
        pytest.raises(UserError, match="the picture was altered: its SHA-256 differs from its file name"),
    ):
        ask(address, items[:1], tmp_path)
    assert recorder.requests == []
    (store / items[0].images[0]).unlink()
    with pytest.raises(UserError, match="the picture is missing"):
        as_sent(with_pictures([{"role": "user", "content": "?"}], items[0].images), store)


def test_items_without_their_picture_are_left_out_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    list_path = tmp_path / "p.jsonl"
    file = f"{'0' * 64}.png"
    listing = [Picture(record=1, address="a", file=file), Picture(record=3, address="b", file=None, why_none="404")]
    list_path.write_text("".join(picture.model_dump_json() + "\n" for picture in listing), encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        make_items(job=MULTIMODAL, source=DEMO / "tutorbench/train.csv", pictures=[list_path], out=tmp_path / "i")
    assert [item.images for item in read_records(tmp_path / "i", Item)] == [[file]]
    assert "items left out because their pictures are unavailable: 2 of 3" in caplog.text
    with pytest.raises(UserError, match="the registry entry of the task's dataset has no `pictures`"):
        make_items(job=MULTIMODAL, source=DEMO / "tutorbench/train.csv", pictures=[], out=tmp_path / "i")


def test_messages_without_pictures_stay_as_they_were() -> None:
    messages = [{"role": "user", "content": "?"}]
    assert with_pictures(messages, []) is messages and as_sent(messages, None) is messages
    assert json.dumps(with_pictures(messages, ["f.png"])[0]["content"][1]) == '{"type": "picture", "file": "f.png"}'
