// The pages of a running hub: node hub.mjs CHROMIUM NAME URL
// Pictures and PDF of each page are hub-NAME-PAGE*.
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { isReadable, open, withBrowser } from "./browser.mjs";

// As they are sent, compressed.
const MOST_BYTES = 200_000;
const NARROW = 400;
// Pictures show no more of a page: making the window as tall as the page takes seconds.
const HEIGHT = 2000;

const [program, name, hub] = process.argv.slice(2);
await withBrowser(program, async () => {
  for (const [page, path, status = 200] of await pages()) await looks(page, path, status);
  await worksByKeyboard();
});

// A page of each sort, and its status. The newest runs are of `seekless bench`, those before of one machine.
async function pages() {
  const { runs } = await (await fetch(`${hub}/api/v1/runs?limit=4`)).json();
  const ids = runs.map((run) => run.id);
  const kind = await (await fetch(`${hub}/kinds/nvme`)).text();
  const [device] = kind.match(/\/devices\/[^"]+/);
  return [
    ["start", "/"], ["simulated", "/?kind=simulated"], ["kind", "/kinds/nvme"], ["task", "/kinds/nvme?operation=read&cache=cold"],
    ["device", device], ["without", "/kinds/card"], ["runs", "/runs"], ["form", "/compare"],
    ...ids.slice(0, 3).map((id, at) => [`run-${at}`, `/runs/${id}`]),
    ["compare", `/compare?a=${ids.at(-1)}&b=${ids.at(-2)}`], ["about", "/about"], ["api", "/api"],
    ["missing", `/runs/${"0".repeat(32)}`, 404], ["wrong", "/runs?before=x", 400],
  ];
}

function opened(path) {
  return open(hub + path, path, (url) => ["style.css", "icon.svg"].some((file) => url === `${hub}/${file}`), {
    viewport: { width: 1100, height: HEIGHT },
  });
}

async function looks(of, path, status) {
  const { page, response, done } = await opened(path);
  assert.equal(response.status(), status, path);
  const { responseBodySize: bytes } = await response.request().sizes();
  assert.ok(bytes < MOST_BYTES, `${path}: ${bytes} bytes`);
  assert.deepEqual(await page.evaluate(defects), [], path);
  const file = `hub-${name}-${of}`;
  const backgrounds = new Set();
  const schemes = ["light", "dark"];
  for (const colorScheme of schemes) {
    await page.emulateMedia({ colorScheme });
    backgrounds.add(await page.evaluate(() => getComputedStyle(document.body).backgroundColor));
    await page.screenshot({ path: `${file}-${colorScheme}.png` });
  }
  assert.equal(backgrounds.size, 2, path);
  const pdf = await page.pdf({ format: "A4" });
  assert.ok(pdf.subarray(0, 5).toString() === "%PDF-" && pdf.length > 5000, path);
  await writeFile(`${file}.pdf`, pdf);
  await page.setViewportSize({ width: NARROW, height: HEIGHT });
  await page.screenshot({ path: `${file}-narrow.png` });
  for (const colorScheme of schemes) {
    await page.emulateMedia({ colorScheme });
    await isReadable(page, `${path}, ${colorScheme}`);
  }
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(width <= NARROW, `${path}: ${width} px wide in a window of ${NARROW}`);
  await done((complaint) => status !== 200 && complaint.includes(`a status of ${status}`));
  console.log(`${name}: ${path}: ${bytes} bytes as sent, readable in light, dark, narrow and on paper`);
}

// In the page: what has no place on a page of a hub, and what readers of screens need.
function defects() {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const levels = all("h1, h2, h3").map((heading) => Number(heading.tagName[1]));
  return [
    ["scripts", all("script")],
    ["attributes that run", all("*").filter((element) => element.getAttributeNames().some((of) => of.startsWith("on")))],
    ["controls without a label", all("select, input").filter((control) => !control.labels.length)],
    ["tables without a caption", all("table:not(:has(caption))")],
    ["heads of tables without a scope", all("th:not([scope])")],
    ["not one main", all("main").length === 1 ? [] : all("main, body")],
    ["headings out of order", levels.filter((level, at) => level > (levels[at - 1] ?? 0) + 1)],
    ["no language", document.documentElement.lang ? [] : ["html"]],
    ["links without words", all("a[href]").filter((link) => !link.textContent.trim() && !link.ariaLabel)],
  ].filter(([, found]) => found.length).map(([defect, found]) => `${defect}: ${found[0].outerHTML?.slice(0, 120) ?? found[0]}`);
}

// All links and controls are reached by Tab, in their order, with an outline; and the form works.
async function worksByKeyboard() {
  const { page, done } = await opened("/");
  const wanted = await page.evaluate(() => {
    const all = [...document.querySelectorAll("a[href], select, input, button, summary")];
    all.forEach((element, at) => (element.dataset.at = at));
    return all.length;
  });
  for (let at = 0; at < wanted; ) {
    await page.keyboard.press("Tab");
    const [reached, outline] = await page.evaluate(() =>
      [document.activeElement.dataset.at, getComputedStyle(document.activeElement).outlineStyle]);
    // Tables that scroll are reached, too.
    if (reached === undefined) continue;
    assert.deepEqual([reached, outline], [String(at), "solid"]);
    at += 1;
  }
  await page.locator("select[name=operation]").focus();
  await page.keyboard.type("write");
  await page.locator("form button").focus();
  await page.keyboard.press("Enter");
  await page.waitForURL(/[?&]operation=write/);
  assert.equal(await page.locator("select[name=operation]").inputValue(), "write");
  await page.locator("table.heat td a").first().focus();
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/kinds\/[^?]+\?operation=write/);
  await done((complaint) => complaint.startsWith(`asked for ${hub}/`));
  console.log(`${name}: ${wanted} links and controls are reached by Tab, the form and a cell work by Enter`);
}
