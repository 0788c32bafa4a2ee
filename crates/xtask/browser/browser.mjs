// What the tests of reports and of hubs share: a browser, and what they look at on each page.
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const LEAST_CONTRAST = 4.5;

let browser;

export async function withBrowser(program, work) {
  browser = await chromium.launch({
    executablePath: program,
    // Chromium's own sandbox refuses root.
    args: process.getuid() === 0 ? ["--no-sandbox"] : [],
  });
  try {
    await work();
  } finally {
    await browser.close();
  }
}

// Opens a page; whatever it asks for but itself and what it may, and whatever it complains about, is collected.
export async function open(url, name, mayAskFor, options = {}) {
  const context = await browser.newContext({
    viewport: { width: 1100, height: 900 }, reducedMotion: "reduce", acceptDownloads: true, ...options,
  });
  const page = await context.newPage();
  const complaints = [];
  page.on("console", (message) => complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => {
    if (request.url() !== url && !mayAskFor(request.url())) complaints.push(`asked for ${request.url().slice(0, 100)}`);
  });
  const response = await page.goto(url);
  const done = async (isExpected = () => false) => {
    await context.close();
    assert.deepEqual(complaints.filter((complaint) => !isExpected(complaint)), [], `${name}: complaints`);
  };
  return { page, response, done };
}

// Checks that all texts have contrast, and all pictures a name.
export async function isReadable(page, name) {
  await page.evaluate(unfoldAll);
  assert.deepEqual(await page.evaluate(contrasts, LEAST_CONTRAST), [], `${name}: text too pale`);
  assert.deepEqual(await page.evaluate(unnamedPictures), [], `${name}: pictures without a name`);
}

// In the page.
export function unfoldAll() {
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
