"""Generation of tutoring data from seed problems (KMP-Bench, section 2), and fine-tuning of tutors on the data."""

COMMANDS = {
    "Curation and fine-tuning": (
        "curation.seeds:make_seeds",
        "curation.pipeline:make_components",
        "curation.pipeline:write_flows",
        "curation.pipeline:write_dialogues",
        "curation.quality:measure_curation",
        "curation.quality:rate_dialogues",
        "curation.sets:assemble_sets",
        "curation.sets:clean_training_set",
        "curation.sets:fetch_curated",
        "curation.examples:mix_examples",
        "curation.tuning:tune_tutor",
        "curation.sets:serve_tuned",
    ),
}
