"""Code of MRBench: loader, labelled releases, toolkit, word lists, the paper's numbers, and a report page."""
