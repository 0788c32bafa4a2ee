// The reports in a browser that has no network: node report.mjs test CHROMIUM NAME...
// or one picture of a report: node report.mjs picture CHROMIUM PAGE.html PICTURE.png
// NAME.html is a report here, NAME.json the run that it must carry.
import assert from "node:assert/strict";
import { readFile, stat, writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { gunzipSync } from "node:zlib";
import { isReadable, open, unfoldAll, withBrowser } from "./browser.mjs";

const MOST_OPENING_MS = 20_000;

const [task, program, ...names] = process.argv.slice(2);
await withBrowser(program, async () => {
  if (task === "picture") await picture(...names);
  else for (const name of names) await test(name);
});

async function test(name) {
  await looks(name);
  await sorts(name);
  await isReadableWithoutScripts(name);
  await prints(name);
}

// Opens a report, which may ask for nothing.
function opened(name, options = {}) {
  return open(pathToFileURL(resolve(`${name}.html`)).href, name, () => false, { offline: true, ...options });
}

async function looks(name) {
  const backgrounds = {};
  for (const colorScheme of ["light", "dark"]) {
    const started = performance.now();
    const { page, done } = await opened(name, { colorScheme });
    const opening = performance.now() - started;
    assert.ok(opening < MOST_OPENING_MS, `${name}: opening took ${opening} ms`);
    backgrounds[colorScheme] = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await page.screenshot({ path: `${name}-${colorScheme}.png`, fullPage: true });
    await isReadable(page, `${name}, ${colorScheme}`);
    console.log(`${name}, ${colorScheme}: open after ${opening.toFixed(0)} ms, text is readable, pictures have names`);
    await done();
  }
  assert.notEqual(backgrounds.light, backgrounds.dark);
  const { page, done } = await opened(name, { viewport: { width: 360, height: 740 } });
  await page.screenshot({ path: `${name}-narrow.png`, clip: { x: 0, y: 0, width: 360, height: 2400 }, fullPage: true });
  await page.evaluate(unfoldAll);
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(width <= 360, `${name}: ${width} px wide in a window of 360`);
  await done();
  console.log(`${name}: fits a window of 360 px`);
}

async function sorts(name) {
  const { page, done } = await opened(name);
  await page.evaluate(unfoldAll);
  // A contest in which nothing works has no ranking.
  const table = page.locator("details.contest table.sort:has(th[aria-sort])").first();
  const column = async (index) =>
    table.locator("tbody tr").evaluateAll((rows, index) => rows.map((row) => {
      const cell = row.cells[index];
      return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
    }), index);
  const head = (index) => table.locator("thead th").nth(index);
  const [RANK, METHOD, RATE] = [0, 1, 2];
  const ranks = await column(RANK);
  assert.ok(ranks.length > 2, `${name}: too few rows to sort`);
  assert.equal(await head(RANK).getAttribute("aria-sort"), "ascending");
  const methods = await column(METHOD);
  await head(METHOD).getByRole("button").click();
  assert.equal(await head(METHOD).getAttribute("aria-sort"), "ascending");
  assert.equal(await head(RANK).getAttribute("aria-sort"), null);
  const byName = [...methods].sort(new Intl.Collator("en", { numeric: true }).compare);
  assert.deepEqual(await column(METHOD), byName);
  assert.notDeepEqual(await column(RANK), ranks, "the order did not change");
  await head(RATE).getByRole("button").focus();
  for (const [key, sign, word] of [["Enter", 1, "ascending"], ["Space", -1, "descending"]]) {
    await page.keyboard.press(key);
    assert.equal(await head(RATE).getAttribute("aria-sort"), word);
    const rates = await column(RATE);
    assert.deepEqual(rates, [...rates].sort((one, other) => sign * (one - other)));
  }
  assert.deepEqual(await saved(page, /^[^.]+\.json$/), await document_(name), "the run that is saved");
  await done();
  console.log(`${name}: ${ranks.length} rows sort by click and by key, the run is saved as JSON`);
}

async function isReadableWithoutScripts(name) {
  const { page, done } = await opened(name, { javaScriptEnabled: false });
  const run = await document_(name);
  const text = await page.locator("#recommendations").innerText();
  for (const { conclusion } of run.contests) {
    // A card has the method without what its title says.
    const method = conclusion.recommended ?? conclusion.until_decided ?? conclusion.best;
    const mechanism = method?.split(/[/,]/)[1] ?? conclusion.sentence;
    assert.ok(text.includes(mechanism), `${mechanism} is not in ${text}`);
    if (run.contests.length <= 12) assert.ok(text.includes(conclusion.sentence), `${conclusion.sentence} is not in ${text}`);
  }
  const ranking = "table.sort:has(th[aria-sort])";
  const contest = page.locator("details.contest[open]").filter({ has: page.locator(ranking) }).first();
  const rows = contest.locator(`${ranking} tbody tr`);
  if (!(await rows.first().isVisible())) await contest.locator("summary", { hasText: "All figures" }).first().click();
  assert.ok(await rows.first().isVisible());
  assert.equal(await page.locator("th button").count(), 0);
  assert.deepEqual(await saved(page, /^[^.]+\.json\.gz$/), run, "the run that is saved without scripts");
  await done();
  console.log(`${name}: without scripts ${run.contests.length} conclusions and the tables are there, the run is saved`);
}

async function prints(name) {
  const { page, done } = await opened(name, { colorScheme: "dark" });
  const pdf = await page.pdf({ format: "A4" });
  assert.ok(pdf.subarray(0, 5).toString() === "%PDF-" && pdf.length > 10_000);
  await writeFile(`${name}.pdf`, pdf);
  await done();
  console.log(`${name}: prints to ${pdf.length >> 10} KiB of PDF`);
}

async function document_(name) {
  return JSON.parse(await readFile(`${name}.json`, "utf8"));
}

// Follows the link to the run, and reads what is saved.
async function saved(page, fileName) {
  const [download] = await Promise.all([page.waitForEvent("download"), page.locator("#raw").click()]);
  assert.match(download.suggestedFilename(), fileName);
  const bytes = await readFile(await download.path());
  return JSON.parse(download.suggestedFilename().endsWith(".gz") ? gunzipSync(bytes) : bytes);
}

// The head of a report and its first plots, as wide and high as a page on the web shows well.
async function picture(report, file) {
  const { page, done } = await opened(report.replace(/\.html$/, ""), { viewport: { width: 1080, height: 930 } });
  await page.evaluate(() => {
    for (const part of document.querySelectorAll("#notes, #across, nav")) part.remove();
    const heads = [...document.querySelectorAll("#recommendations h3")];
    for (const head of heads.slice(1)) {
      head.nextElementSibling.remove();
      head.remove();
    }
    for (const card of [...document.querySelectorAll("#recommendations .card")].slice(2)) card.remove();
  });
  await page.screenshot({ path: file });
  await done();
  const { size } = await stat(file);
  assert.ok(size < 300 << 10, `${file}: ${size} bytes are too many for a page on the web`);
  console.log(`${file}: ${size >> 10} KiB`);
}
