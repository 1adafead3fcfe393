//! Pages in a real browser: they render, load nothing, say nothing on the console, and fit a phone.
//!
//! Needs `chromedriver` and Chromium on the search path (`apt-get install chromium chromium-driver`, as `.ci/run` does). On a
//! machine without them the tests say that they did not run, and pass; where `NCCLSWEEP_BROWSER=required` is set, they fail.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::{Value, json};

/// A phone and a laptop.
const WIDTHS: [u32; 2] = [390, 1280];

/// A driver with one browser, ended with it.
struct Browser {
    driver: Child,
    session: String,
}

impl Browser {
    /// A browser as wide as this, by day or by night; none where there is none on this machine.
    fn start(width: u32, scheme: &str) -> Option<Self> {
        let driver = Command::new("chromedriver").arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut driver = match driver {
            Ok(driver) => driver,
            Err(error) => {
                let required = std::env::var("NCCLSWEEP_BROWSER").is_ok_and(|value| value == "required");
                assert!(!required, "chromedriver: {error}");
                eprintln!("NOT RUN: there is no chromedriver here ({error}), so no page was looked at");
                return None;
            }
        };
        let mut said = BufReader::new(driver.stdout.take().unwrap()).lines().map_while(Result::ok);
        // Its first line has the port that was asked for, which is none.
        let port = |line: String| line.split("on port ").nth(1)?.trim_end_matches('.').parse::<u16>().ok();
        let port = said.find_map(|line| port(line).filter(|port| *port > 0)).expect("the driver's port");
        // It writes on, and would end if nobody read.
        std::thread::spawn(move || said.for_each(drop));
        let mut browser = Self { driver, session: format!("http://127.0.0.1:{port}/session") };
        let options = json!({
            // The sandbox needs privileges that containers do not give; the pages are ours.
            "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
            "mobileEmulation": {"deviceMetrics": {"width": width, "height": 844, "pixelRatio": 1.0}},
        });
        let logs = json!({"browser": "ALL", "performance": "ALL"});
        let wanted = json!({"goog:chromeOptions": options, "goog:loggingPrefs": logs});
        let session = browser.ask("", json!({"capabilities": {"alwaysMatch": wanted}}));
        browser.session = format!("{}/{}", browser.session, session["sessionId"].as_str().expect("a session"));
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        browser.ask("/goog/cdp/execute", json!({"cmd": "Emulation.setEmulatedMedia", "params": media}));
        Some(browser)
    }

    fn ask(&self, what: &str, body: Value) -> Value {
        let request = minreq::post(format!("{}{what}", self.session)).with_timeout(60).with_json(&body).unwrap();
        let answer: Value = request.send().unwrap().json().unwrap();
        assert!(answer["value"]["error"].is_null(), "{what}: {answer}");
        answer["value"].clone()
    }

    /// What the page answers to an expression.
    fn page(&self, expression: &str) -> Value {
        self.ask("/execute/sync", json!({"script": format!("return {expression}"), "args": []}))
    }

    fn log(&self, kind: &str) -> Vec<Value> {
        self.ask("/se/log", json!({"type": kind})).as_array().unwrap().clone()
    }

    /// Addresses that were asked for since the last time.
    fn requests(&self) -> Vec<String> {
        let messages = self.log("performance").into_iter().filter_map(|entry| {
            let event: Value = serde_json::from_str(entry["message"].as_str()?).ok()?;
            let event = &event["message"];
            let sent = event["method"] == "Network.requestWillBeSent";
            sent.then(|| event["params"]["request"]["url"].as_str().unwrap_or_default().to_owned())
        });
        messages.collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = minreq::delete(&self.session).with_timeout(10).send();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// Pages of an emulated run, of two runs compared, and of several runs.
static PAGES: LazyLock<(tempfile::TempDir, Vec<PathBuf>)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let program = |arguments: &str| {
        let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_ncclsweep"));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", folder.path());
        command.current_dir(folder.path()).timeout(Duration::from_secs(600)).args(arguments.split_whitespace());
        let ran = command.output().unwrap();
        assert!(matches!(ran.status.code(), Some(0 | 1 | 5)), "{ran:?}");
        ran.stdout
    };
    let write = |name: &str, page: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, page).unwrap();
        path
    };
    let run = "--emulate --gpus 4 --sizes 7168x1/2/64 --modes graph,sync --communicators 2 --rounds 3 --samples 6 --chain 10 --quiet";
    // A long name and a long value must not make a phone scroll sideways.
    let set = "a-name-that-somebody-gave-to-a-set-without-thinking-of-phones:NCCL_PROTO=LL";
    for (out, seed) in [("old", 1), ("new", 2)] {
        program(&format!("{run} --set {set} --set two:NCCL_ALGO=Tree --out {out} --seed {seed}"));
    }
    let pages = vec![
        folder.path().join("old/report.html"),
        write("comparison.html", &program("compare old new --format html")),
        write("several.html", &program("report old new --format html")),
    ];
    (folder, pages)
});

#[track_caller]
fn look(browser: &Browser, page: &Path, width: u32) {
    let address = format!("file://{}", page.display());
    browser.ask("/url", json!({"url": address}));
    let shown = |what: &str| format!("{} at {width}: {what}", page.display());
    assert_eq!(browser.log("browser"), Vec::<Value>::new(), "{}", shown("the console"));
    let asked: Vec<String> = browser.requests().into_iter().filter(|url| !url.starts_with("data:")).collect();
    assert!(asked.iter().all(|url| *url == address) && !asked.is_empty(), "{}: {asked:?}", shown("requests"));
    let sideways = browser.page("[document.documentElement.scrollWidth, document.documentElement.clientWidth]");
    assert_eq!(sideways, json!([width, width]), "{}", shown("width of the page"));
    let outside = "[...document.querySelectorAll('h1, h2, p, li, dd, figure, .plot > svg')]\
        .filter(e => !e.closest('.scroll') && e.getBoundingClientRect().right > innerWidth + 1).length";
    assert_eq!(browser.page(outside), json!(0), "{}", shown("elements beyond the edge"));
    // A laptop shows the whole drawing of the box; a phone scrolls it, and its shaded edge says so.
    let drawings = browser.page("[...document.querySelectorAll('.wiring')].map(e => e.scrollWidth > e.clientWidth)");
    let drawings = drawings.as_array().unwrap();
    assert!(drawings.iter().all(|scrolls| *scrolls == json!(width < 1000)), "{}: {drawings:?}", shown("drawings"));
    // Every plot is drawn and has a name.
    let name = "e => e.getAttribute('aria-label') || document.getElementById(e.getAttribute('aria-labelledby').split(' ')[0]).textContent";
    let plots = format!(
        "[...document.querySelectorAll('svg[role=img]')].filter(e => !e.closest('details')).map(e => \
        [e.getBoundingClientRect().width > 100, ({name})(e)])"
    );
    let plots = browser.page(&plots);
    let plots = plots.as_array().unwrap();
    assert!(plots.len() > 5, "{}", shown("plots"));
    assert!(plots.iter().all(|plot| plot[0] == json!(true) && plot[1] != json!("")), "{}: {plots:?}", shown("plots"));
    assert_eq!(browser.page("document.querySelectorAll('h1').length"), json!(1), "{}", shown("headings"));
}

#[test]
fn pages_render_quietly_ask_for_nothing_and_fit_a_phone() {
    for (width, scheme) in WIDTHS.into_iter().zip(["dark", "light"]) {
        let Some(browser) = Browser::start(width, scheme) else { return };
        for page in &PAGES.1 {
            look(&browser, page, width);
        }
        let ground = browser.page("getComputedStyle(document.body).backgroundColor");
        let dark = ground != json!("rgb(255, 255, 255)");
        assert_eq!(dark, scheme == "dark", "the theme follows the reader: {ground}");
    }
}

#[test]
fn the_look_sees_what_it_looks_for() {
    let Some(browser) = Browser::start(390, "light") else { return };
    let page = PAGES.0.path().join("bad.html");
    let wide = "<h1>x</h1><p style='width:900px'>x</p><script>console.error('no')</script><img src='missing.png'>";
    std::fs::write(&page, format!("<meta name=viewport content='width=device-width'>{wide}")).unwrap();
    browser.ask("/url", json!({"url": format!("file://{}", page.display())}));
    assert!(browser.log("browser").iter().any(|entry| entry["message"].as_str().unwrap().contains("no")));
    assert!(browser.requests().iter().any(|url| url.ends_with("missing.png")));
    assert!(browser.page("document.documentElement.scrollWidth").as_u64().unwrap() > 390);
}
