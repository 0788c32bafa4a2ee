//! Pages of invalid runs: texts with markup, impossible figures, indices out of range.

use std::fs;
use std::io::Read;
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::read::GzDecoder;
use proptest::prelude::*;
use seekless_method::{Durability, Operation};
use seekless_record::{
    Cache, Column, Conclusion, Contest, Differ, EntryVerdict, Finding, FindingKind, Interval, OptionEffect, Published,
    Run, Sittings, Trial,
};
use seekless_results::compare;
use seekless_results::simulation::{concluded, contest, run, trial};

use super::page::Frame;
use super::{comparison_page, run_page, to_html};
use crate::to_markdown;

/// Whether tests try everything, however long it takes.
fn is_long() -> bool {
    std::env::var_os("SEEKLESS_TEST_LONG").is_some()
}

fn page(run: &Run) -> String {
    to_html(run, run, &[]).expect("a run is JSON")
}

fn published(method: &str, kind: FindingKind) -> Published {
    let finding = Finding {
        kind,
        below_bytes: Some(256 << 20),
        method: method.to_owned(),
        block: Some("4K to 256K".to_owned()),
        ..Finding::default()
    };
    Published {
        experiment: "read".to_owned(),
        source: "a document".to_owned(),
        machine: "their server".to_owned(),
        findings: vec![finding],
    }
}

/// The run that a page carries.
fn carried(page: &str) -> Run {
    let start = page.find("data:application/gzip;base64,").expect("a link") + "data:application/gzip;base64,".len();
    let base64 = page[start..].split('"').next().expect("an end");
    let mut json = Vec::new();
    let compressed = BASE64_STANDARD.decode(base64).expect("base64");
    GzDecoder::new(compressed.as_slice())
        .read_to_end(&mut json)
        .expect("gzip");
    seekless_record::from_json(&json).expect("a run")
}

#[test]
fn html_says_what_to_use_and_carries_the_run() {
    let run = concluded(run(&[("read/sync,block=128K", 1.0), ("read/mmap", 1.5)], 8));
    let page = page(&run);
    assert!(page.contains("Use read/sync,block=128K: the best; the next best, read/mmap, takes 1.50x as long."));
    assert_eq!(carried(&page), run);
    assert!(page.contains("default-src 'none'") && page.contains("<title>seekless simulated</title>"));
}

const SITE: Frame<'_> = Frame::Site(&[("Hub", "/"), ("About", "/about?a=1&b=\"2\"")], "<a note>");

/// Whether nothing of a page needs more than a policy that allows the linked style alone.
fn is_of_site(page: &str) -> bool {
    let inline = ["<script", "<style", " style=", "\"data:"];
    let unwanted = [&inline[..], &["Content-Security-Policy", "http://", "https://"]].concat();
    page.contains("href=\"/style.css\"") && !unwanted.iter().any(|unwanted| page.contains(unwanted))
}

#[test]
fn html_of_a_site_has_navigation_and_no_script_or_style() {
    let run = concluded(run(&[("read/sync,block=128K", 1.0), ("read/mmap", 1.5)], 8));
    let page = run_page(&run, "/api/v1/runs/1", SITE).into_string();
    assert!(is_of_site(&page), "{page}");
    assert!(page.contains(r#"<a href="/about?a=1&amp;b=&quot;2&quot;">About</a>"#));
    assert!(page.contains(r#"href="/api/v1/runs/1""#) && page.contains("Use read/sync,block=128K: the best"));
    let comparison = compare(&run, &run).expect("the same contests");
    let compared = comparison_page(&comparison, &[], SITE).into_string();
    let has_notes = compared.contains(r#"id="notes""#);
    assert!(is_of_site(&compared) && !has_notes, "{compared}");
    assert!([page, compared].iter().all(|page| page.contains("&lt;a note&gt;")));
}

#[test]
fn html_of_usual_runs_on_a_site_is_small() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../record/testdata/runs");
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let run = seekless_record::from_json(&fs::read(&path).expect("a run")).expect("a run");
        let page = run_page(&concluded(run), "/api/v1/runs/1", SITE).into_string();
        assert!(page.len() < 200_000, "{}: {} bytes", path.display(), page.len());
    }
}

#[test]
fn html_heat_map_needs_two_blocks() {
    let has_blocks = |methods: &[(&str, f64)]| page(&concluded(run(methods, 6))).contains("id=\"blocks-0\"");
    let methods = ["read/sync,block=1M", "read/sync,block=4K", "read/mmap"].map(|method| (method, 1.0));
    assert!(has_blocks(&methods) && !has_blocks(&methods[1..]));
}

#[test]
fn html_cold_stands_beside_warm_of_otherwise_equal_contests() {
    let with_twin = |size_bytes: u64| {
        let mut run = run(&[("read/sync,block=4K", 1.0), ("read/mmap", 2.0)], 6);
        let warm = contest(size_bytes, run.contests[0].entries.clone());
        run.contests.push(Contest {
            cache: Cache::Warm,
            ..warm
        });
        for trial in run.trials.clone() {
            run.trials.push(Trial { contest: 1, ..trial });
        }
        page(&concluded(run)).contains("Cold and warm")
    };
    assert!(with_twin(64 << 20));
    assert!(!with_twin(32 << 20));
}

#[test]
fn html_published_method_is_held_against_the_best_here() {
    let methods = [
        ("read/sync,block=4K", 1.3),
        ("read/sync,block=64K", 1.2),
        ("read/sync,direct,block=1M", 1.0),
        ("read/double-buffer,block=1M", 0.5),
    ];
    let told = |method: &str, kind: FindingKind| {
        let mut run = concluded(run(&methods, 8));
        run.published = vec![published(method, kind)];
        page(&run)
    };
    let plain = told("read_plain", FindingKind::Synchronous);
    for cell in [
        "<td class=\"slow\"> 1.20x</td>",
        // Its best block is 64K.
        "block=64K<wbr></td><td class=\"w\">55.9 MB/s</td>",
        "<td class=\"w\">their server</td>",
        ">the best synchronous, block 4K to 256K</td>",
    ] {
        assert!(plain.contains(cell), "{cell}");
    }
    let best = "<td class=\"best\">◆ best</td></tr></tbody></table></div></details>";
    assert!(told("read_async_plain", FindingKind::Overlapping).contains(best));
    for missing in ["read_mmap_plain", "no such name"] {
        assert!(told(missing, FindingKind::Any).contains("not among the methods of this run"));
    }
    let mut large = run(&methods, 8);
    large.contests[0].size_bytes = 256 << 20;
    large.published = vec![published("read_plain", FindingKind::Synchronous)];
    let page = page(&concluded(large));
    assert!(!page.contains("Published, and here"), "it is about smaller files");
}

#[test]
fn html_published_figures_stand_beside_the_same_program() {
    let methods = [
        ("compare/stdio,order=preload", 1.5),
        ("compare/sync,block=4K,order=preload", 0.5),
    ];
    let mut run = run(&methods, 6);
    let labels = ["compare-with-extra-read", "block-compare-with-extra-read-4k"];
    for (entry, label) in run.contests[0].entries.iter_mut().zip(labels) {
        entry.label = Some(label.to_owned());
    }
    run.contests[0].operation = Operation::Compare;
    let mut figures = published(labels[0], FindingKind::Any);
    figures.findings[0].operation = Operation::Compare;
    figures.findings[0].seconds = Some(9.64);
    figures.machine = "HDD 2009: a disk".to_owned();
    run.published = vec![figures];
    let page = page(&concluded(run));
    let figures = ["9.64 s", "1.50 s, 750.0 ms of CPU"];
    for text in figures
        .into_iter()
        .chain([">HDD 2009</td>", "HDD 2009: a disk. a document</li>"])
    {
        assert!(page.contains(text), "{page}");
    }
}

#[test]
fn html_columns_are_lines_with_what_was_published() {
    let mut run = concluded(run(&[("read/sync,block=4K", 1.0), ("read/mmap", 2.0)], 6));
    run.columns = vec![Column {
        experiment: "read".to_owned(),
        name: "Plain & simple".to_owned(),
        methods: "read/sync*".to_owned(),
        ..Column::default()
    }];
    let mut elsewhere = published("Plain & simple", FindingKind::Any);
    elsewhere.findings[0].seconds = Some(9.0);
    elsewhere.findings[0].at_least_bytes = Some(4_000_000);
    let own = page(&run);
    let lines = ["class=\"column s0\"", "class=\"hollow"].map(|class| own.matches(class).count());
    assert_eq!(lines, [1, 0]);
    run.published = vec![elsewhere.clone()];
    let both = page(&run);
    assert!(both.contains("<title>Plain &amp; simple, 4 MB: 9 s, their server</title>"));
    assert!(both.contains("<title>Plain &amp; simple, 64M: 1 s</title>"));
    assert!(!both.contains("Published, and here"), "it is told with the columns");
    elsewhere.findings[0].durability = Some(Durability::WriteThrough);
    run.published = vec![elsewhere];
    assert!(!page(&run).contains("class=\"hollow"), "it is about another durability");
}

#[test]
fn html_marks_where_a_run_was_resumed() {
    let mut run = concluded(run(&[("read/sync,block=4K", 1.0), ("read/mmap", 2.0)], 8));
    run.resumed_at_seconds = vec![3.5, f64::NAN, 1e9];
    assert_eq!(page(&run).matches(">resumed<").count(), 1);
}

#[test]
fn html_of_thousands_of_entries_is_one_page_of_bounded_plots() {
    let (entries, contests) = if is_long() { (3000, 2000) } else { (500, 400) };
    let names: Vec<String> = (0..entries).map(|block| format!("read/sync,block={block}K")).collect();
    let methods: Vec<(&str, f64)> = names.iter().map(|name| (name.as_str(), 1.0)).collect();
    let mut run = concluded(run(&methods, 1));
    let empty = contest(1 << 20, Vec::new());
    run.contests.extend(std::iter::repeat_n(empty, contests));
    let page = page(&run);
    assert!(page.matches("<svg").count() < 100 && page.contains("more contests are not shown"));
    assert_eq!(carried(&page).contests.len(), contests + 1);
}

/// Texts with markup.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("</script><script>alert(1)</script>".to_owned()),
        Just("\"'><img src=x onerror=alert(1)>".to_owned()),
        Just("read/sync,block=4K".to_owned()),
        Just("read/double-buffer,block=99999999999T".to_owned()),
        Just("\u{0}\u{1b}]8;;x\u{7}\u{202e}\u{61c}\u{9b}]]>&#x3c;".to_owned()),
        Just(String::new()),
        ".{0,12}",
        Just(",=/,block=".repeat(300)),
    ]
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(f64::MAX),
        Just(f64::MIN_POSITIVE),
        Just(0.0),
        Just(-1.0),
        0.5f64..2.0,
    ]
}

fn interval() -> impl Strategy<Value = Interval> {
    (number(), number(), number(), any::<bool>()).prop_map(|(low, median, high, is_interval)| Interval {
        low,
        median,
        high,
        coverage: is_interval.then_some(0.95),
    })
}

prop_compose! {
    fn hostile_run()(
        texts in proptest::collection::vec(text(), 12),
        sizes in proptest::collection::vec(prop_oneof![Just(0), Just(u64::MAX), Just(8u64 << 20)], 0..4),
        trials in proptest::collection::vec((0usize..5, 0usize..6, 0u32..9, number(), number()), 0..60),
        intervals in proptest::collection::vec(interval(), 4),
        rate in number(),
        storage in 0usize..3,
    ) -> Run {
        let methods: Vec<(&str, f64)> = texts.iter().take(4).map(|text| (text.as_str(), 1.0)).collect();
        let mut run = concluded(run(&methods, 7));
        let first = run.contests[0].clone();
        run.contests.extend(sizes.iter().map(|&size| Contest { size_bytes: size, storage, ..first.clone() }));
        for (number, contest) in run.contests.iter_mut().enumerate() {
            contest.operation = Operation::ALL[number % Operation::ALL.len()];
            contest.cache = [Cache::Cold, Cache::Warm, Cache::Over, Cache::None][number % 4];
            contest.entries[0].verdict = EntryVerdict::unavailable(texts[6].clone());
            contest.entries[1].label = Some(texts[3].clone());
            contest.differ = Differ::ALL[number % Differ::ALL.len()];
            if let Some(summary) = contest.entries.last_mut().and_then(|entry| entry.summary.as_mut()) {
                (summary.seconds, summary.bytes_per_second) = (intervals[0], rate);
            }
            if let EntryVerdict::Best(result) | EntryVerdict::Tie(result) | EntryVerdict::Slower(result) = &mut contest.entries[1].verdict {
                result.ratio = intervals[1];
            }
            contest.conclusion = Some(Conclusion {
                recommended: Some(texts[7].clone()),
                until_decided: Some(texts[4].clone()),
                costs_at_most: Some(rate),
                equal_within: Some(rate),
                decided_by_times: Some(rate),
                sittings: Some(Sittings {
                    count: 2,
                    runs: 2,
                    agreeing: 1,
                    needed: Some(3),
                    deviation: rate,
                }),
                best: Some(texts[0].clone()),
                best_synchronous: Some(texts[1].clone()),
                best_overlapping: Some(texts[2].clone()),
                effects: vec![OptionEffect {
                    option: texts[8].clone(),
                    without: texts[0].clone(),
                    with: texts[1].clone(),
                    ratio: intervals[3],
                    cpu_seconds_difference: rate,
                }],
                sentence: texts[9].clone(),
            });
        }
        run.trials.extend(trials.into_iter().map(|(contest, entry, round, seconds, at_seconds)| {
            Trial { contest, at_seconds, ..trial(entry, round, seconds) }
        }));
        run.published = vec![published(&texts[10], FindingKind::Any), published("read_plain", FindingKind::Overlapping)];
        run.published[0].machine.clone_from(&texts[11]);
        run.published.push(published(&texts[0], FindingKind::Any));
        run.published[2].findings[0].seconds = Some(rate);
        run.published[2].findings[0].cpu_seconds = Some(rate);
        run.published[2].findings[0].bytes_per_second = Some(rate);
        run.published[2].findings[0].at_least_bytes = sizes.first().copied();
        run.columns = texts.iter().map(|text| Column {
            experiment: "read".to_owned(),
            name: text.clone(),
            methods: "*".to_owned(),
            ..Column::default()
        }).collect();
        run.storages[0].facts.insert(texts[3].clone(), texts[4].clone());
        (run.id, run.elapsed_seconds) = (texts[11].clone(), rate);
        run.warnings = texts.clone();
        run.choices = texts;
        run.noise.stolen = Some(rate);
        run.lab_cost.null_seconds = vec![rate];
        run
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if is_long() { 64 } else { 16 }))]

    #[test]
    fn html_of_no_run_breaks(run in hostile_run()) {
        let page = page(&run);
        prop_assert_eq!(page.matches("<script").count(), 1);
        let on_site = run_page(&run, "/api/v1/runs/1", SITE).into_string();
        prop_assert!(!on_site.contains("<script") && !on_site.contains("<img"));
        prop_assert!(!page.contains("<img") && !page.contains("]]>"));
        for text in [&page, &to_markdown(&run)] {
            let is_hidden = |character: char| character.is_control() || matches!(character, '\u{202e}' | '\u{61c}');
            let hidden = text.chars().find(|&character| is_hidden(character) && character != '\n');
            prop_assert_eq!(hidden, None);
        }
        for wild in ["=\"NaN", "=\"inf", "=\"-inf", "NaN ", "inf "] {
            prop_assert!(!page.contains(wild), "{}", wild);
        }
        prop_assert!(page.len() < 3_000_000, "{}", page.len());
    }
}
