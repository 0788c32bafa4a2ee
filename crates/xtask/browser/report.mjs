// The reports in a browser that has no network: node report.mjs test CHROMIUM NAME...
// or one picture of a report: node report.mjs picture CHROMIUM PAGE.html PICTURE.png
// NAME.html is a report here, NAME.json the run that it must carry.
import assert from "node:assert/strict";
import { readFile, stat, writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { gunzipSync } from "node:zlib";
import { chromium } from "playwright-core";

const LEAST_CONTRAST = 4.5;
const MOST_OPENING_MS = 20_000;

const [task, program, ...names] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: program,
  // Chromium's own sandbox refuses root.
  args: process.getuid() === 0 ? ["--no-sandbox"] : [],
});
try {
  if (task === "picture") await picture(...names);
  else for (const name of names) await test(name);
} finally {
  await browser.close();
}

async function test(name) {
  await looks(name);
  await sorts(name);
  await isReadableWithoutScripts(name);
  await prints(name);
}

// Opens a report; whatever it asks for but itself, and whatever it complains about, is collected.
async function opened(name, options = {}) {
  const url = pathToFileURL(resolve(`${name}.html`)).href;
  const context = await browser.newContext({
    viewport: { width: 1100, height: 900 }, reducedMotion: "reduce", offline: true, acceptDownloads: true, ...options,
  });
  const page = await context.newPage();
  const complaints = [];
  page.on("console", (message) => complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => {
    if (request.url() !== url) complaints.push(`asked for ${request.url().slice(0, 100)}`);
  });
  await page.goto(url);
  const done = async () => {
    await context.close();
    assert.deepEqual(complaints, [], `${name}: complaints`);
  };
  return { page, done };
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
    await page.evaluate(unfoldAll);
    const pale = await page.evaluate(contrasts, LEAST_CONTRAST);
    assert.deepEqual(pale, [], `${name}: text too pale, ${colorScheme}`);
    const unnamed = await page.evaluate(unnamedPictures);
    assert.deepEqual(unnamed, [], `${name}: pictures without a name`);
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

// In the page.
function unfoldAll() {
  for (const details of document.querySelectorAll("details")) details.open = true;
}

// In the page: the pictures that tell nothing to those who do not see them.
function unnamedPictures() {
  const pictures = [...document.querySelectorAll("svg:not([aria-hidden=true])")];
  const words = (picture, attribute) => document.getElementById(picture.getAttribute(attribute))?.textContent.trim();
  const isNamed = (picture) =>
    picture.getAttribute("role") === "img" && words(picture, "aria-labelledby") && words(picture, "aria-describedby");
  return pictures.filter((picture) => !isNamed(picture)).map((picture) => picture.outerHTML.slice(0, 200));
}

// In the page: texts whose contrast with what lies behind them is too low, by WCAG 2's formula, each colour pair once.
function contrasts(least) {
  const channels = (colour) => colour.match(/[\d.]+/g).map(Number);
  const luminance = (colour) => {
    const [red, green, blue] = channels(colour).map((value) => {
      const part = value / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const isSeen = (colour) => colour !== "none" && (channels(colour)[3] ?? 1) > 0;
  const behind = (element) => {
    const cell = element.closest("svg g")?.querySelector("rect:not(.frame):not(.bar)");
    if (cell && /^q\d/.test(cell.parentNode.getAttribute("class") ?? "")) return getComputedStyle(cell).fill;
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (isSeen(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const found = new Map();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || element.closest("script, title, desc, caption, .skip")) continue;
    const style = getComputedStyle(element);
    const colour = element.closest("svg") ? style.fill : style.color;
    const [one, other] = [luminance(colour), luminance(behind(element))].sort((one, other) => other - one);
    const contrast = (one + 0.05) / (other + 0.05);
    const key = `${colour} on ${behind(element)}`;
    if (contrast < least && !found.has(key)) found.set(key, `${contrast.toFixed(2)}: ${key}: ${walker.currentNode.data.slice(0, 40)}`);
  }
  return [...found.values()];
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
