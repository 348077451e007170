"""Pictures of a dataset's records: fetched once, looked at, kept under their checksums.

A picture lies in the Parquet file itself, beside the source file, or at an address. Its file is named by its SHA-256,
so that a request which names the file names the bytes.
"""

from __future__ import annotations

import hashlib
import io
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from maieutic.config.datasets import Copy, Edition, Pictures, Source
from maieutic.config.limits import USUAL, Limits
from maieutic.core.errors import UserError
from maieutic.core.files import MB, sha256_of, whole_file
from maieutic.core.journal import Journal, Line
from maieutic.core.progress import Progress
from maieutic.core.records import Picture, read_records, write_records
from maieutic.datasets.sources import FetchJob, demo_folder, read_source

if TYPE_CHECKING:
    from PIL.Image import Image

log = logging.getLogger(__name__)
# What model servers take; others become PNG. A phone's MPO is a JPEG with a second picture behind it.
KEPT = {"PNG": "png", "JPEG": "jpg", "MPO": "jpg", "WEBP": "webp", "GIF": "gif"}
# What is read at all: a decoder more is a way in more, and one of Pillow's starts another program.
READ = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
TRIES = 4
TIMEOUT = (20.0, 60.0)  # seconds to connect, and between two blocks
FETCHED = ".fetched.{}.jsonl"  # the addresses of a dataset that are known already, one line each
MISSING = "no picture"


class Missing(Exception):
    """There is no such picture, and asking again would not help."""


class Place(NamedTuple):
    """Where one record's picture is."""

    record: int
    address: str
    embedded: bytes | None


KNOWN = {"file", "width", "height"}


class Fetched(Line):
    """What was found at an address, its key."""

    file: str
    width: int
    height: int

    def picture(self, place: Place) -> Picture:
        """What was found at the address, as the picture of the record at `place`."""
        return Picture(
            record=place.record,
            address=place.address,
            origin="address",
            **self.model_dump(include=KNOWN),
        )


class FetchPictures(FetchJob):
    """The pictures of one edition of a dataset."""


def fetch_pictures(*, job: FetchPictures, source: Path, demo_dir: Path, store: Path, out: Path) -> None:
    """Write the list of a dataset's pictures, whose files are in `store`.

    A picture that is gone for good is listed with the reason; any other failure ends the job, and the next one goes on.
    Raises UserError where pictures come from addresses and the list is not the pinned one.

    source: the dataset's records; demo_dir: the folder of the demo's files. Paths begin beside the published file.
    """
    name, dataset, edition = job.name, job.dataset, job.edition
    copy, pictures = dataset.copy_of(name, edition), dataset.pictures
    root = demo_folder(demo_dir, copy.path) if edition == "demo" else job.data_dir
    folder = (root / copy.path).parent if root else None
    assert pictures is not None, "only a dataset with pictures has such a job"
    store.mkdir(parents=True, exist_ok=True)
    places = list(places_of(source, pictures, dataset.form_of(edition)))
    progress = Progress(f"{name}: pictures", len(places))
    entries: list[Picture] = []
    with Journal(store / FETCHED.format(name), Fetched) as journal:
        for place in places:
            known = journal.answers.get(place.address) if is_address(place) else None
            if known and intact(store / known.file):
                picture = known.picture(place)
            else:
                picture = one_picture(place, folder, store, job.limits)
                if is_address(place) and picture.file:  # what is missing may be there another time
                    journal.append(Fetched(key=place.address, **picture.model_dump(include=KNOWN)))
            progress.step(known=known is not None)
            entries.append(picture)
    progress.say()
    write_records(out.with_suffix(".new"), entries)
    check_pinned(name, edition, copy, entries, out.with_suffix(".new"))
    out.with_suffix(".new").replace(out)
    if lost := [entry for entry in entries if entry.file is None]:
        log.warning("%s: %d of %d pictures are not to be had, %s", name, len(lost), len(entries), lost[0].why_none)


def intact(path: Path) -> bool:
    """Whether a picture's file holds what its name says."""
    return path.is_file() and sha256_of(path) == path.stem


def is_address(place: Place) -> bool:
    """Whether a picture comes over the network."""
    return not place.embedded and place.address.startswith(("http://", "https://"))


def places_of(source: Path, pictures: Pictures, form: str) -> Iterator[Place]:
    """Each record's picture, where it names one. Embedded ones are read a row group at a time: they are large."""
    if form == "parquet" and pictures.embedded:
        yield from embedded_places(source, pictures, pictures.embedded)
        return
    for number, record in enumerate(read_source(source, form)):
        yield from place_in(number, record, pictures, None)


def place_in(number: int, record: Source, pictures: Pictures, data: bytes | None) -> Iterator[Place]:
    """The place of one record's picture: nothing where it has none, and an empty one where it should have one."""
    address, expected = address_of(record, pictures), pictures.expected(record)
    if expected or (expected is None and (data or address)):
        yield Place(number, address, data)


def address_of(record: Source, pictures: Pictures) -> str:
    """The address that a record names, or nothing."""
    return str(record.get(pictures.address) or "").strip()


def embedded_places(source: Path, pictures: Pictures, column: str) -> Iterator[Place]:
    """Pictures in a column of the hub's type: `bytes` and `path`."""
    import pyarrow.parquet as pq

    table = pq.ParquetFile(source)
    if column not in table.schema_arrow.names:
        log.warning("%s has no column %s: every picture's address is asked", source, column)
        yield from embedded_places(source, Pictures(address=pictures.address, where=pictures.where), pictures.address)
        return
    number = 0
    for group in range(table.num_row_groups):
        columns = list({column, pictures.address, *pictures.where})
        for row in table.read_row_group(group, columns=columns).to_pylist():
            held = row[column]
            data = held.get("bytes") if isinstance(held, dict) else held if isinstance(held, bytes) else None
            yield from place_in(number, row, pictures, data)
            number += 1


def one_picture(place: Place, folder: Path | None, store: Path, limits: Limits = USUAL) -> Picture:
    """Bring one picture into the store. Raises UserError for a passing failure."""
    common = {"record": place.record, "address": place.address, "origin": origin_of(place)}
    try:
        if not place.embedded and not place.address:
            raise Missing("the record names no picture")
        data = place.embedded or (
            download(place.address, limits) if is_address(place) else beside(place.address, folder, limits)
        )
        data, suffix, width, height = looked_at(data, limits)
    except Missing as missing:
        return Picture(**common, file=None, why_none=str(missing))
    file = f"{hashlib.sha256(data).hexdigest()}.{suffix}"
    with whole_file(store / file, "wb") as handle:
        handle.write(data)
    return Picture(**common, file=file, width=width, height=height)


def origin_of(place: Place) -> Literal["embedded", "path", "address"]:
    """Where a picture is looked for."""
    return "embedded" if place.embedded else "address" if is_address(place) else "path"


def beside(path: str, folder: Path | None, limits: Limits = USUAL) -> bytes:
    """The bytes of a file beside the source file, and nowhere else."""
    if folder is None:
        raise Missing("a path, and there is no folder to look in")
    try:
        file = (folder / path).resolve()
        there = file.is_file()
    except (OSError, ValueError):  # too long for a path, or with a NUL in it
        raise Missing("no path") from None
    if there and file.stat().st_size > limits.picture_mb * MB:
        raise Missing(f"more than {limits.picture_mb:g} MB")
    if not there or not file.is_relative_to(folder.resolve()):
        raise UserError(str(folder / path), "the picture is not there", "mend data_dir")
    return file.read_bytes()


def looked_at(data: bytes, limits: Limits = USUAL) -> tuple[bytes, str, int, int]:
    """The bytes, their suffix, width and height in pixels. Raises Missing for what is none, or is too large."""
    from PIL import Image, ImageOps

    if len(data) > limits.picture_mb * MB:
        raise Missing(f"more than {limits.picture_mb:g} MB")
    Image.MAX_IMAGE_PIXELS = int(limits.picture_megapixels * 1e6)
    try:
        with Image.open(io.BytesIO(data), formats=READ) as picture:
            if picture.width * picture.height > limits.picture_megapixels * 1e6:
                raise Missing(f"more than {limits.picture_megapixels:g} million pixels")
            picture.load()
            size, kind = picture.size, str(picture.format)
            if kind not in KEPT:
                converted = io.BytesIO()
                on_white(ImageOps.exif_transpose(picture)).save(converted, "PNG")
                data, kind = converted.getvalue(), "PNG"
    except (Missing, MemoryError):
        raise
    except Exception as error:  # decoders of odd files raise anything
        log.warning("not a picture that can be read: %s", error)
        raise Missing(MISSING) from None  # in the same words everywhere: the list is pinned
    return data, KEPT[kind], *size


def on_white(picture: Image) -> Image:
    """The picture without transparency, as it looks on paper."""
    from PIL import Image as Pillow

    with_alpha = picture.convert("RGBA")
    ground = Pillow.new("RGBA", with_alpha.size, "white")
    ground.alpha_composite(with_alpha)
    return ground.convert("RGB")


def download(url: str, limits: Limits = USUAL) -> bytes:
    """The bytes at an address. Raises Missing where the server says that there is nothing, UserError otherwise."""
    import requests  # each job that makes items loads this module

    problem = ""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(0.5 * 2**attempt)
        try:
            return transfer(url, limits)
        except requests.HTTPError as error:
            status = error.response.status_code
            if status < 500 and status not in {408, 425, 429}:
                raise Missing(f"the server answers {status}") from None
            problem = f"the server answers {status}"
        except (requests.RequestException, OSError) as error:
            problem = type(error).__name__
    raise UserError(url, f"no picture in {TRIES} tries ({problem})", "run again where there is a network")


def transfer(url: str, limits: Limits) -> bytes:
    """One try at an address; a body that is too long, or ends early, is none."""
    import requests

    with requests.get(url, stream=True, timeout=TIMEOUT) as answer:
        answer.raise_for_status()
        data = bytearray()
        for block in answer.iter_content(1 << 16):
            data += block
            if len(data) > limits.picture_mb * MB:
                raise Missing(f"more than {limits.picture_mb:g} MB")
        length = answer.headers.get("Content-Length")
        if length and "Content-Encoding" not in answer.headers and len(data) != int(length):
            raise requests.ConnectionError("the body ended early")
    return bytes(data)


def check_pinned(name: str, edition: Edition, copy: Copy, entries: list[Picture], listed: Path) -> None:
    """Pictures from addresses, and those of a demo, are what the registry says; embedded ones are pinned with it."""
    key = f"datasets.{name}.{edition}.pictures"
    digest = sha256_of(listed)
    if copy.pictures is not None and digest != copy.pictures:
        listed.unlink()
        raise UserError(key, f"the list of pictures should have {copy.pictures}, found {digest}", "they were altered")
    if copy.pictures is None and any(entry.origin != "embedded" for entry in entries):
        listed.unlink()
        raise UserError(
            key,
            "pictures that are not in the pinned file, and nobody has pinned them",
            f"look at them, then set {digest}",
        )


def picture_names(listed: Path) -> dict[int, str | None]:
    """By the number of its record, each picture's file; None where it is not to be had."""
    return {entry.record: entry.file for entry in read_records(listed, Picture)}
