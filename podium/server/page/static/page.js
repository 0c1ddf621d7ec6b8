// The page works without this file: every action is a form or a link. Here they get keys, and a judgement does not
// reload the page: the same form is sent, and the part with the results is taken from the answer.

const KEYS_OFF = "podium-keys-off";
const byId = (id) => document.getElementById(id);
const hits = () => [...document.querySelectorAll(".hit")];

// Where the person is: the hit with the focus, or the last one that had it.
let current = null;

function currentHit() {
  const focused = document.activeElement?.closest(".hit");
  return focused ?? (current && byId(current));
}

function goTo(hit) {
  if (!hit) return;
  current = hit.id;
  hit.focus({ preventScroll: true });
  hit.scrollIntoView({ block: "nearest" });
}

// `steps` hits down (or up) in the column.
function move(steps) {
  const hit = currentHit();
  if (!hit) return goTo(hits()[0]);
  const column = hits().filter((one) => one.dataset.column === hit.dataset.column);
  goTo(column[column.indexOf(hit) + steps]);
}

// To the same document in the next column, or to the same rank where it has none.
function moveAside(steps) {
  const hit = currentHit();
  if (!hit) return goTo(hits()[0]);
  const column = String(Number(hit.dataset.column) + steps);
  const beside = hits().filter((one) => one.dataset.column === column);
  const rank = Number(hit.id.split("-")[2]);
  goTo(beside.find((one) => one.dataset.document === hit.dataset.document) ?? beside[Math.min(rank, beside.length) - 1]);
}

function say(text) {
  byId("said").textContent = text;
}

// What the person has opened stays open when the results are replaced.
function openedFeatures() {
  return hits().filter((hit) => hit.querySelector("details[open]")).map((hit) => hit.id);
}

function tickedHits() {
  return [...document.querySelectorAll('.hit input[name="why"]:checked')].map((box) => [box.closest(".hit").id, box]);
}

function replaceResults(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html").querySelector("#results");
  if (!fresh) throw new Error("The answer has no results.");
  const opened = openedFeatures();
  const ticked = tickedHits().map(([id]) => id);
  byId("results").replaceWith(document.adoptNode(fresh));
  for (const id of opened) byId(id)?.querySelector("details")?.setAttribute("open", "");
  for (const id of ticked) {
    const box = byId(id)?.querySelector('input[name="why"]');
    if (box) box.checked = true;
  }
}

// One judgement after the other, in their order.
let judging = Promise.resolve();

function judge(form, button) {
  const hit = button.closest(".hit");
  const title = hit.querySelector("h3").textContent;
  const fields = new URLSearchParams(new FormData(form));
  fields.append(button.name, button.value);
  current = hit.id;
  const focusedLabel = document.activeElement === button ? button.value.split(" ")[0] : null;
  judging = judging.then(async () => {
    try {
      const answer = await fetch(form.action, { method: "POST", body: fields, headers: { Accept: "text/html" } });
      const text = await answer.text();
      if (!answer.ok) throw new Error(messageOf(text));
      replaceResults(text);
      say(`${title}: ${button.value.split(" ")[0]} of 4 stars`);
    } catch (error) {
      alertAbove(error.message);
    }
    restoreFocus(focusedLabel);
  });
}

function restoreFocus(label) {
  const hit = current && byId(current);
  if (!hit) return;
  const button = label === null ? null : hit.querySelector(`button[value^="${label} "]`);
  (button ?? hit).focus({ preventScroll: true });
}

function messageOf(text) {
  const message = new DOMParser().parseFromString(text, "text/html").querySelector(".message");
  return message?.textContent ?? "The service did not answer.";
}

function alertAbove(text) {
  const alert = document.createElement("p");
  alert.className = "alert";
  alert.setAttribute("role", "alert");
  alert.textContent = `Not judged: ${text}`;
  byId("results").prepend(alert);
}

function press(label) {
  currentHit()?.querySelector(`button[name="judgement"][value^="${label} "]`)?.click();
}

function toggleFeatures() {
  const details = currentHit()?.querySelector("details");
  if (details) details.open = !details.open;
}

function tick() {
  currentHit()?.querySelector('input[name="why"]')?.click();
}

// At most two different documents are ticked: the one before the last is let go.
let picked = [];

function keepTwo(box) {
  picked = picked.filter((value) => value !== box.value);
  if (box.checked) picked.push(box.value);
  for (const other of document.querySelectorAll('input[name="why"][type="checkbox"]')) {
    if (other.value === box.value) other.checked = box.checked;
    else if (picked.length > 2 && other.value === picked[0]) other.checked = false;
  }
  picked = picked.slice(-2);
}

function askWhy() {
  byId("why-form")?.requestSubmit();
}

const ACTIONS = {
  j: () => move(1),
  k: () => move(-1),
  h: () => moveAside(-1),
  l: () => moveAside(1),
  e: toggleFeatures,
  x: tick,
  w: askWhy,
  "/": () => byId("q")?.select(),
  "?": () => byId("keys")?.showModal(),
};

function isTyping(element) {
  return element.closest("select, textarea, dialog, [contenteditable]") || element.matches('input:not([type="checkbox"])');
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || isTyping(event.target)) return;
  if (localStorage.getItem(KEYS_OFF) && event.key !== "?") return;
  const isLabel = /^[0-4]$/.test(event.key);
  const action = isLabel ? () => press(event.key) : ACTIONS[event.key];
  if (!action) return;
  event.preventDefault();
  action();
}

function onSubmit(event) {
  const button = event.submitter;
  if (button?.name !== "judgement") return;
  event.preventDefault();
  judge(event.target, button);
}

// The systems side by side are bounded; the service refuses more, so the boxes do too.
function limitSystems() {
  const boxes = [...document.querySelectorAll('.search input[name="system"]')];
  const isFull = boxes.filter((box) => box.checked).length >= 4;
  for (const box of boxes) box.disabled = isFull && !box.checked;
}

function setUpKeys() {
  const button = byId("keys-button");
  const dialog = byId("keys");
  if (!button || !dialog) return;
  button.hidden = false;
  button.addEventListener("click", () => dialog.showModal());
  const box = byId("keys-on");
  box.checked = !localStorage.getItem(KEYS_OFF);
  box.addEventListener("change", () => (box.checked ? localStorage.removeItem(KEYS_OFF) : localStorage.setItem(KEYS_OFF, "1")));
}

document.addEventListener("keydown", onKey);
document.addEventListener("submit", onSubmit);
document.addEventListener("focusin", (event) => {
  const hit = event.target.closest(".hit");
  if (hit) current = hit.id;
});
document.addEventListener("change", (event) => {
  if (event.target.matches('.hit input[name="why"]')) keepTwo(event.target);
  if (event.target.matches('.search input[name="system"]')) limitSystems();
});
picked = [...new Set(tickedHits().map(([, box]) => box.value))];
setUpKeys();
limitSystems();
