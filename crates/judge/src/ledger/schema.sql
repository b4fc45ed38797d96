-- The ledger of judging. Times are seconds since 1970, durations seconds, money 10^-12 dollars.

-- Random id of this ledger, by which workers on other machines distinguish its tasks from those of others.
CREATE TABLE identity (id TEXT NOT NULL) STRICT;
INSERT INTO identity VALUES (lower(hex(randomblob(16))));

-- Each start of a plan: who judged when, with what.
CREATE TABLE starts (
    start INTEGER PRIMARY KEY,
    judge INTEGER NOT NULL REFERENCES judges,
    list INTEGER NOT NULL,         -- of its pairs
    time REAL NOT NULL,
    plan TEXT NOT NULL,            -- the text of the plan
    quarry TEXT NOT NULL           -- the version of the program
) STRICT;

-- A judge with its prompts, its model and the limits of its programs: what a label depends on.
CREATE TABLE judges (
    judge INTEGER PRIMARY KEY,
    version TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    description TEXT NOT NULL      -- JSON
) STRICT;

-- The members of a judge that decides by majority.
CREATE TABLE members (
    judge INTEGER NOT NULL REFERENCES judges,
    member INTEGER NOT NULL REFERENCES judges,
    PRIMARY KEY (judge, member)
) STRICT, WITHOUT ROWID;
CREATE INDEX majorities_of_members ON members (member);

CREATE TABLE prompts (
    version TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    text TEXT NOT NULL
) STRICT;

-- What is judged. `list` is the first one that had the pair, 0 for code that a model wrote, `label` the last label of it in
-- a file, the only column that ever changes.
CREATE TABLE pairs (
    pair INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    query_id TEXT NOT NULL,
    query TEXT NOT NULL,
    code_id TEXT NOT NULL,
    code TEXT NOT NULL,
    language TEXT NOT NULL,
    label INTEGER,                 -- that of the file, which no judge sees
    content TEXT NOT NULL,         -- stands for language, query and code
    list INTEGER NOT NULL
) STRICT;

-- The pairs that the starts of this list had. Lists that no judge started with last are removed.
CREATE TABLE listed (
    list INTEGER NOT NULL,
    pair INTEGER NOT NULL REFERENCES pairs,
    PRIMARY KEY (list, pair)
) STRICT, WITHOUT ROWID;

CREATE INDEX pairs_of_queries ON pairs (query_id, pair);
CREATE INDEX pairs_of_codes ON pairs (code_id, pair);

-- A question on its way to an endpoint, written before it is sent, and before it is sent again. Without an end it was
-- cut off, and counts at its worst case.
CREATE TABLE calls (
    call INTEGER PRIMARY KEY,
    pair INTEGER NOT NULL REFERENCES pairs,
    request TEXT NOT NULL,
    worst_tokens INTEGER NOT NULL,
    worst_money INTEGER NOT NULL,
    time REAL NOT NULL
) STRICT;

CREATE TABLE call_ends (
    call INTEGER PRIMARY KEY REFERENCES calls,
    tokens INTEGER NOT NULL,       -- booked; that of all attempts stands with the first
    money INTEGER NOT NULL,
    unconfirmed_tokens INTEGER NOT NULL,  -- of them, worst cases of attempts whose cost is unknown
    unconfirmed_money INTEGER NOT NULL,
    seconds REAL NOT NULL,
    problem TEXT                   -- why there is no answer
) STRICT;

-- Questions that were sent together, to be answered within a day: written before they are sent.
CREATE TABLE answers (
    answer INTEGER PRIMARY KEY,
    request TEXT NOT NULL UNIQUE,  -- the hash of the whole request and of where it goes
    model TEXT NOT NULL,           -- address and model
    prompt TEXT NOT NULL REFERENCES prompts,
    origin TEXT NOT NULL,          -- endpoint, cache or recording
    messages TEXT NOT NULL,        -- JSON: what was asked
    text TEXT NOT NULL,
    stop TEXT NOT NULL,
    input_tokens INTEGER,
    output_tokens INTEGER,
    money INTEGER NOT NULL,        -- of this answer by its tokens, paid now or when it was recorded
    seconds REAL NOT NULL,
    time REAL NOT NULL
) STRICT;

CREATE TABLE runs (
    run INTEGER PRIMARY KEY,
    language TEXT NOT NULL,
    program TEXT NOT NULL,
    packages TEXT NOT NULL,        -- JSON: those that it asks for
    provided TEXT,                 -- JSON: those that it had, with their versions
    unavailable TEXT,              -- why it did not run: what it asks for cannot be had
    tests INTEGER NOT NULL,        -- places of assertions that ran or, where that is not known, that it has
    result TEXT NOT NULL,
    ended TEXT NOT NULL,           -- JSON
    stdout TEXT NOT NULL,
    stderr TEXT NOT NULL,
    wall_seconds REAL NOT NULL,
    cpu_seconds REAL NOT NULL,
    memory_bytes INTEGER NOT NULL,
    isolation TEXT NOT NULL,
    time REAL NOT NULL,
    assertions TEXT,               -- JSON: which of them were evaluated, where that is known
    CHECK ((provided IS NULL) <> (unavailable IS NULL))
) STRICT;

-- What happened to a pair, in order: each is an answer or a run. The bug fixer's answer holds the packages that it
-- wanted.
CREATE TABLE events (
    judge INTEGER NOT NULL REFERENCES judges,
    pair INTEGER NOT NULL REFERENCES pairs,
    position INTEGER NOT NULL,
    prompt TEXT,                   -- name, of an answer
    answer INTEGER REFERENCES answers,
    run INTEGER REFERENCES runs,
    extra TEXT,                    -- what it is for, where it is not a part of the judge without options
    PRIMARY KEY (judge, pair, position),
    CHECK ((answer IS NULL) <> (run IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE verdicts (
    judge INTEGER NOT NULL REFERENCES judges,
    pair INTEGER NOT NULL REFERENCES pairs,
    outcome TEXT NOT NULL,
    grade INTEGER,
    decided_by TEXT NOT NULL,
    reason TEXT NOT NULL,
    confidence REAL,               -- how sure whoever decided is to be right, 0 to 1
    time REAL NOT NULL,
    PRIMARY KEY (judge, pair)
) STRICT, WITHOUT ROWID;

-- Code that a model wrote for a query that no candidate answers, and what people made of it. Of the rows for a query,
-- the last counts.
CREATE TABLE generated (
    generated INTEGER PRIMARY KEY,
    judge INTEGER NOT NULL REFERENCES judges,
    query_id TEXT NOT NULL,
    pair INTEGER NOT NULL REFERENCES pairs,
    round INTEGER NOT NULL,        -- how often code was written for the query, from 1
    model TEXT NOT NULL,           -- address and model
    prompt TEXT NOT NULL REFERENCES prompts,
    answer INTEGER REFERENCES answers,  -- that holds it, where no person changed it
    status TEXT NOT NULL,          -- generated, approved, edited or rejected
    person TEXT,                   -- who approved, edited or rejected it
    time REAL NOT NULL
) STRICT;
CREATE INDEX generated_for_queries ON generated (judge, query_id);

-- Why a pair has no verdict yet. It is tried again at the next start.
CREATE TABLE failures (
    failure INTEGER PRIMARY KEY,
    judge INTEGER NOT NULL REFERENCES judges,
    pair INTEGER NOT NULL REFERENCES pairs,
    reason TEXT NOT NULL,
    time REAL NOT NULL
) STRICT;
CREATE INDEX failures_of_pairs ON failures (judge, pair);

-- What people are given, and what they say. A form is a file for people; its rows carry its name and their number.
CREATE TABLE forms (
    form INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,     -- stands for all that is in it
    guideline TEXT NOT NULL,       -- its name
    text TEXT NOT NULL,            -- its text
    tests INTEGER NOT NULL,        -- whether people write test programs
    seed INTEGER NOT NULL,
    time REAL NOT NULL
) STRICT;

CREATE TABLE items (
    form INTEGER NOT NULL REFERENCES forms,
    item INTEGER NOT NULL,         -- from 1, in the order of the file
    content TEXT NOT NULL,         -- hash of what is asked about, independent of form and order
    pair INTEGER REFERENCES pairs,
    subject TEXT,                  -- JSON: what is asked about, if it is not a pair
    PRIMARY KEY (form, item),
    CHECK ((pair IS NULL) <> (subject IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE people (
    person INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

-- The labels that people gave an item. The last one counts; earlier ones are kept.
CREATE TABLE replies (
    reply INTEGER PRIMARY KEY,
    form INTEGER NOT NULL,
    item INTEGER NOT NULL,
    person INTEGER NOT NULL REFERENCES people,
    label TEXT NOT NULL,           -- name of a value of the guideline
    run INTEGER REFERENCES runs,   -- of the test program
    edited TEXT,                   -- generated code as it was edited
    minutes REAL,
    comment TEXT NOT NULL,
    date TEXT,                     -- date of the label as the person gives it: YYYY-MM-DD
    time REAL NOT NULL,            -- when it was imported
    FOREIGN KEY (form, item) REFERENCES items (form, item)
) STRICT;
CREATE INDEX replies_of_items ON replies (form, item, person);

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
