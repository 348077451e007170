"""Croissant description (MLCommons, version 1.1) of a data set of the registry: its file, checksum and licence."""

from __future__ import annotations

from typing import Any

from maieutic.config.datasets import Dataset, DatasetFile
from maieutic.core.files import safe_name

MEDIA_TYPE_BY_FORMAT = {
    "json": "application/json",
    "jsonl": "application/jsonl",
    "csv": "text/csv",
    "parquet": "application/x-parquet",
}
JSON_LD_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
# Croissant requires a checksum for every file. For repositories, which have none, its authors use this address instead.
NO_CHECKSUM = "https://github.com/mlcommons/croissant/issues/80"


def croissant_of(name: str, dataset: Dataset, copy: DatasetFile | None, form: str) -> dict[str, Any]:
    """Return the Croissant description of one edition of a data set.

    name: name of the data set in the registry; copy: the edition's file, if there is one; form: format of the data.
    """
    hub = copy.hub if copy else None
    if hub is not None:
        address = f"https://huggingface.co/datasets/{hub.repo}"
        distribution: list[dict[str, Any]] = [
            {
                "@type": "cr:FileObject", "@id": "repo", "name": "repo", "contentUrl": f"{address}/tree/{hub.revision}",
                "encodingFormat": "git+https", "sha256": NO_CHECKSUM,
            },
            {
                "@type": "cr:FileSet", "@id": "files", "name": "files", "containedIn": {"@id": "repo"},
                "encodingFormat": MEDIA_TYPE_BY_FORMAT[form], "includes": hub.files,
            },
        ]  # fmt: skip
    else:
        address = (copy.url if copy else None) or f"file:{copy.path if copy else name}"
        distribution = [
            {
                "@type": "cr:FileObject", "@id": "file", "name": "file", "contentUrl": address,
                "encodingFormat": MEDIA_TYPE_BY_FORMAT[form], "sha256": (copy.sha256 if copy else None) or NO_CHECKSUM,
            }
        ]  # fmt: skip
    return {
        "@context": JSON_LD_CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": safe_name(name),
        "description": dataset.title,
        "license": dataset.licence,
        "url": address,
        "distribution": distribution,
    }
