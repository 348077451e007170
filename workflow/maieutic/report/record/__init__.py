"""A finished run for programs and archives: exports, a crate with its checksums, a second look at what was received."""
