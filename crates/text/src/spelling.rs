//! Turns British spellings into American ones: code and queries use both.

/// Beginnings of British words, in alphabetical order, and their American spelling. None is the beginning of another.
const BEGINNINGS: &[(&str, &str)] = &[
    ("acknowledgement", "acknowledgment"),
    ("aeroplane", "airplane"),
    ("aluminium", "aluminum"),
    ("analogue", "analog"),
    ("analyse", "analyze"),
    ("analysing", "analyzing"),
    ("armour", "armor"),
    ("artefact", "artifact"),
    ("behaviour", "behavior"),
    ("calibre", "caliber"),
    ("cancelled", "canceled"),
    ("cancelling", "canceling"),
    ("catalogue", "catalog"),
    ("catalyse", "catalyze"),
    ("centimetre", "centimeter"),
    ("centre", "center"),
    ("centring", "centering"),
    ("channelled", "channeled"),
    ("channelling", "channeling"),
    ("colour", "color"),
    ("defence", "defense"),
    ("demeanour", "demeanor"),
    ("dialled", "dialed"),
    ("dialling", "dialing"),
    ("dialogue", "dialog"),
    ("discolour", "discolor"),
    ("endeavour", "endeavor"),
    ("enrol", "enroll"),
    ("epilogue", "epilog"),
    ("equalled", "equaled"),
    ("equalling", "equaling"),
    ("favour", "favor"),
    ("fibre", "fiber"),
    ("flavour", "flavor"),
    ("fuelled", "fueled"),
    ("fuelling", "fueling"),
    ("fulfil", "fulfill"),
    ("funnelled", "funneled"),
    ("funnelling", "funneling"),
    ("grey", "gray"),
    ("harbour", "harbor"),
    ("honour", "honor"),
    ("humour", "humor"),
    ("instalment", "installment"),
    ("judgement", "judgment"),
    ("kilometre", "kilometer"),
    ("labelled", "labeled"),
    ("labelling", "labeling"),
    ("labour", "labor"),
    ("levelled", "leveled"),
    ("levelling", "leveling"),
    ("licence", "license"),
    ("litre", "liter"),
    ("manoeuvre", "maneuver"),
    ("marshalled", "marshaled"),
    ("marshalling", "marshaling"),
    ("metre", "meter"),
    ("micrometre", "micrometer"),
    ("millilitre", "milliliter"),
    ("millimetre", "millimeter"),
    ("misbehaviour", "misbehavior"),
    ("mislabelled", "mislabeled"),
    ("modelled", "modeled"),
    ("modelling", "modeling"),
    ("monologue", "monolog"),
    ("mould", "mold"),
    ("multicolour", "multicolor"),
    ("nanometre", "nanometer"),
    ("neighbour", "neighbor"),
    ("odour", "odor"),
    ("offence", "offense"),
    ("panelled", "paneled"),
    ("paralyse", "paralyze"),
    ("parlour", "parlor"),
    ("practis", "practic"),
    ("pretence", "pretense"),
    ("prologue", "prolog"),
    ("recolour", "recolor"),
    ("relabelled", "relabeled"),
    ("relabelling", "relabeling"),
    ("remodelled", "remodeled"),
    ("remodelling", "remodeling"),
    ("rigour", "rigor"),
    ("rumour", "rumor"),
    ("saviour", "savior"),
    ("savour", "savor"),
    ("sceptic", "skeptic"),
    ("signalled", "signaled"),
    ("signalling", "signaling"),
    ("skilful", "skillful"),
    ("spectre", "specter"),
    ("spiralled", "spiraled"),
    ("theatre", "theater"),
    ("totalled", "totaled"),
    ("totalling", "totaling"),
    ("travelled", "traveled"),
    ("traveller", "traveler"),
    ("travelling", "traveling"),
    ("tumour", "tumor"),
    ("tunnelled", "tunneled"),
    ("tunnelling", "tunneling"),
    ("uncoloured", "uncolored"),
    ("unfavour", "unfavor"),
    ("unlabelled", "unlabeled"),
    ("unmarshalled", "unmarshaled"),
    ("unmarshalling", "unmarshaling"),
    ("unravelled", "unraveled"),
    ("unravelling", "unraveling"),
    ("valour", "valor"),
    ("vapour", "vapor"),
    ("vigour", "vigor"),
];

/// Endings of verbs in `-ise` and their derivatives, which have a `z` in American spelling.
const ENDINGS: [&str; 10] =
    ["ise", "ised", "iser", "isers", "ises", "ising", "isable", "isability", "isation", "isations"];

/// Stems before such an ending that keep the `s` in American spelling, in alphabetical order. Shorter words,
/// such as `revise`, nearly all do.
const WITH_S: &[&str] = &[
    "advert",
    "anticlockw",
    "appr",
    "appra",
    "bitw",
    "blockw",
    "channelw",
    "chast",
    "chem",
    "circumc",
    "clockw",
    "columnw",
    "compr",
    "comprom",
    "conc",
    "counterclockw",
    "counterpo",
    "deno",
    "desp",
    "disgu",
    "edgew",
    "elementw",
    "enterpr",
    "entrepr",
    "equipo",
    "exerc",
    "expert",
    "franch",
    "groupw",
    "imprec",
    "improv",
    "layerw",
    "lengthw",
    "likew",
    "mala",
    "marqu",
    "mayonna",
    "merchand",
    "moonr",
    "otherw",
    "pairw",
    "parad",
    "pointw",
    "porpo",
    "prec",
    "prem",
    "prom",
    "repr",
    "roww",
    "semisuperv",
    "stepw",
    "sunr",
    "superv",
    "surm",
    "surpr",
    "telev",
    "tokenw",
    "torto",
    "treat",
    "turquo",
    "unsuperv",
];

/// Minimum letters before `-ise` in a verb: `util`, `real`.
const MIN_STEM: usize = 4;

/// Turns a British spelling into the American one; `word` is in lower case. Other words are unchanged, and words
/// of other languages need not be spelled correctly, only consistently.
pub(crate) fn to_american(word: &mut String) {
    let place = BEGINNINGS.partition_point(|(british, _)| *british <= word.as_str());
    if let Some((british, american)) = place.checked_sub(1).map(|place| BEGINNINGS[place])
        && word.starts_with(british)
        // `enroll` begins with `enrol`.
        && !(american.starts_with(british) && word.starts_with(american))
    {
        // `centred` is `centered`, and `catalogued` is `cataloged`.
        let keeps_e =
            british.ends_with('e') && !american.ends_with('e') && word[british.len()..].starts_with('d');
        word.replace_range(..british.len(), american);
        if keeps_e {
            word.insert(american.len(), 'e');
        }
    }
    let stem = ENDINGS.iter().find_map(|ending| word.strip_suffix(ending));
    if let Some(stem) = stem.filter(|stem| stem.len() >= MIN_STEM && WITH_S.binary_search(stem).is_err()) {
        let s = stem.len() + 1;
        word.replace_range(s..=s, "z");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(word: &str, expected: &str) {
        let mut american = word.to_owned();
        to_american(&mut american);
        assert_eq!(american, expected, "{word}");
    }

    #[test]
    fn the_lists_are_in_order_and_no_word_begins_with_another() {
        assert!(BEGINNINGS.is_sorted() && WITH_S.is_sorted());
        for pair in BEGINNINGS.windows(2) {
            assert!(!pair[1].0.starts_with(pair[0].0), "{pair:?}");
        }
    }

    #[test]
    fn british_words_become_american() {
        for (british, american) in [
            ("colour", "color"),
            ("colourful", "colorful"),
            ("behaviours", "behaviors"),
            ("cancelled", "canceled"),
            ("labelling", "labeling"),
            ("initialise", "initialize"),
            ("initialiser", "initializer"),
            ("deserialisation", "deserialization"),
            ("unrecognised", "unrecognized"),
            ("serialisable", "serializable"),
            ("colourise", "colorize"),
            ("analyser", "analyzer"),
            ("centre", "center"),
            ("centred", "centered"),
            ("catalogued", "cataloged"),
            ("enrolment", "enrollment"),
            ("practising", "practicing"),
            ("licence", "license"),
            ("grey", "gray"),
        ] {
            check(british, american);
            check(american, american);
        }
    }

    #[test]
    fn words_that_are_the_same_in_america_stay() {
        for word in [
            "precise",
            "promised",
            "supervised",
            "exercises",
            "revise",
            "raised",
            "noise",
            "advertise",
            "enterprise",
            "otherwise",
            "disable",
            "parser",
            "hour",
            "source",
            "four",
            "your",
            "program",
            "programmer",
            "enrolled",
            "fulfill",
            "analysis",
            "basis",
            "size",
            "",
            "is",
            "ise",
            "größe",
            "請求",
        ] {
            check(word, word);
        }
    }
}
