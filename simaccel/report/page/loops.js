// The loop tree at the side: shares of time, and a way to one iteration.

const MANY = 40; // lines from which operators start folded

function makeLoops(run, box, go) {
  if (run.no_loops) box.append(element("p", "note", `No loop tree: ${run.no_loops}.`));
  const places = run.loops.map((place, at) => ({ ...place, at, folded: false }));
  places.forEach((place, at) => {
    place.parent = places.slice(0, at).reverse().find((one) => one.depth < place.depth);
    place.leaf = !(places[at + 1] && places[at + 1].depth > place.depth);
    place.folded = places.length > MANY && place.kind === "operator";
    place.row = makePlace(run, place, go);
    place.row.toggle.onclick = () => {
      place.folded = !place.folded;
      showFolds(places);
    };
    box.append(place.row);
  });
  showFolds(places);
  return places;
}

function makePlace(run, place, go) {
  const row = element("div", `place ${place.kind}`);
  row.style.paddingLeft = `${place.depth * 12}px`;
  row.setAttribute("role", "treeitem");
  row.setAttribute("aria-level", place.depth + 1);
  row.toggle = element("button", "toggle", "");
  row.toggle.setAttribute("aria-label", "Fold");
  const button = element("button", "go", placeText(place));
  button.disabled = !place.window;
  button.title = placeTitle(run, place);
  button.onclick = () => go(place);
  const bar = element("span", "bar");
  const [full, part] = [element("i", "full"), element("i", "part")];
  full.style.width = shareText(place.busy / run.cycles);
  part.style.left = full.style.width;
  part.style.width = shareText((place.cycles - place.busy) / run.cycles);
  bar.append(full, part);
  row.append(row.toggle, button, bar, element("span", "share", shareText(place.cycles / run.cycles)));
  row.dataset.site = place.site;
  return row;
}

function placeText(place) {
  // The program's line; "from 0 step 1" says nothing.
  return place.text.replace(/^(loop \S+ \d+) from 0 step 1\b/, "$1");
}

function placeTitle(run, place) {
  const lines = [place.text];
  if (place.lane) {
    const stalled = place.cycles - place.busy;
    lines.push(`${place.lane}: ${place.cycles.toLocaleString("en")} of ${run.cycles.toLocaleString("en")} cycles,`);
    lines.push(`busy in ${place.busy.toLocaleString("en")}, stalled in ${stalled.toLocaleString("en")}`);
  }
  lines.push(`executed ${place.executions.toLocaleString("en")} times`);
  if (place.window) {
    const about = place.exact ? "" : "about ";
    const what = place.kind === "loop" ? "iteration" : "execution";
    const [start, end] = place.window.map((cycle) => cycle.toLocaleString("en"));
    lines.push(`click: ${what} in the middle of the run, ${about}cycles ${start} to ${end}`);
  }
  return lines.join("\n");
}

function markSite(places, site) {
  // Show where a command stands, or the folded line that hides it.
  for (const place of places) place.row.classList.remove("here");
  let place = site && places.find((one) => one.site === site);
  while (place && place.hidden) place = place.parent;
  if (place) place.row.classList.add("here");
}

function showFolds(places) {
  for (const place of places) {
    const hidden = Boolean(place.parent && (place.parent.hidden || place.parent.folded));
    place.hidden = hidden;
    place.row.style.display = hidden ? "none" : "";
    place.row.toggle.textContent = place.leaf ? "" : place.folded ? "\u25b8" : "\u25be";
    if (!place.leaf) place.row.setAttribute("aria-expanded", String(!place.folded));
  }
}

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}
