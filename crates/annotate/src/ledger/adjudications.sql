-- What was decided about items that people answered differently. The last decision counts; earlier ones are kept.
CREATE TABLE adjudications (
    adjudication INTEGER PRIMARY KEY,
    form INTEGER NOT NULL,
    item INTEGER NOT NULL,
    label TEXT NOT NULL,           -- name of a value of the guideline
    comment TEXT NOT NULL,
    time REAL NOT NULL,
    FOREIGN KEY (form, item) REFERENCES items (form, item)
) STRICT;
