"""Names that programming languages know, of which a script or a reader of tables may make something else."""

NAMES = [
    "constructor", "toString", "valueOf", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString",
    "prototype", "length", "undefined", "null", "nan", "None", "true", "NA", "inf", "arguments", "class", "1e5", "0",
]  # fmt: skip
