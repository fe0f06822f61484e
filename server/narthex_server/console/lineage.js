// Enlarges, moves and follows the picture of the lineage. Without this script the picture scrolls.
(() => {
  "use strict";
  const region = document.getElementById("picture");
  const picture = region && region.querySelector("svg");
  if (!picture) return;
  const width = picture.viewBox.baseVal.width;
  const height = picture.viewBox.baseVal.height;
  const least = 0.1, most = 3, step = 1.25;
  let scale = 1;

  const shown = document.createElement("output");
  const zoom = (wanted, x = region.clientWidth / 2, y = region.clientHeight / 2) => {
    const next = Math.min(most, Math.max(least, wanted));
    const left = (region.scrollLeft + x) / scale;
    const top = (region.scrollTop + y) / scale;
    scale = next;
    picture.setAttribute("width", Math.round(width * scale));
    picture.setAttribute("height", Math.round(height * scale));
    region.scrollLeft = left * scale - x;
    region.scrollTop = top * scale - y;
    shown.textContent = `${Math.round(scale * 100)} %`;
  };
  const fit = () => {
    zoom(Math.min(1, region.clientWidth / width, region.clientHeight / height), 0, 0);
  };
  const actions = [
    ["−", "Zoom out (key -)", () => zoom(scale / step)],
    ["+", "Zoom in (key +)", () => zoom(scale * step)],
    ["Fit", "Fit the picture (key f)", fit],
    ["Full size", "Full size (key 0)", () => zoom(1)],
  ];
  const tools = document.createElement("div");
  tools.className = "zoom";
  tools.setAttribute("role", "group");
  tools.setAttribute("aria-label", "Size of the picture");
  for (const [text, title, action] of actions) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    button.title = title;
    button.setAttribute("aria-label", title);
    button.addEventListener("click", action);
    tools.append(button);
  }
  tools.append(shown);
  region.before(tools);
  zoom(1);
  const chosen = picture.querySelector("a.chosen rect");
  if (chosen) {
    const box = chosen.getBBox();
    region.scrollLeft = box.x + box.width / 2 - region.clientWidth / 2;
    region.scrollTop = box.y + box.height / 2 - region.clientHeight / 2;
  }

  const keys = { "-": 0, "+": 1, "=": 1, "f": 2, "0": 3 };
  region.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    event.preventDefault();
    actions[keys[event.key]][2]();
  });
  region.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    const box = region.getBoundingClientRect();
    const factor = event.deltaY < 0 ? step : 1 / step;
    zoom(scale * factor, event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });

  let from = null;
  region.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "mouse" || event.button !== 0 || event.target.closest("a")) return;
    from = { x: event.clientX, y: event.clientY, left: region.scrollLeft, top: region.scrollTop };
    region.setPointerCapture(event.pointerId);
  });
  region.addEventListener("pointermove", (event) => {
    if (!from) return;
    region.scrollLeft = from.left + from.x - event.clientX;
    region.scrollTop = from.top + from.y - event.clientY;
  });
  for (const name of ["pointerup", "pointercancel"]) {
    region.addEventListener(name, () => { from = null; });
  }

  const curves = [...picture.querySelectorAll("path[data-start]")];
  const near = new Map();
  for (const curve of curves) {
    for (const [end, other] of [["start", "end"], ["end", "start"]]) {
      const key = `${other} ${curve.dataset[other]}`;
      near.set(key, [...(near.get(key) || []), [curve, curve.dataset[end]]]);
    }
  }
  const reach = (side, number, seen) => {
    for (const [curve, next] of near.get(`${side} ${number}`) || []) {
      if (seen.has(curve)) continue;
      seen.add(curve);
      reach(side, next, seen);
    }
    return seen;
  };
  const follow = (box) => {
    const marked = new Set();
    if (box) {
      for (const side of ["start", "end"]) {
        for (const curve of reach(side, box.dataset.number, new Set())) marked.add(curve);
      }
    }
    for (const curve of curves) curve.classList.toggle("on", marked.has(curve));
  };
  for (const name of ["pointerover", "focusin"]) {
    picture.addEventListener(name, (event) => follow(event.target.closest("a[data-number]")));
  }
  picture.addEventListener("pointerleave", () => follow(null));
  picture.addEventListener("focusout", () => follow(null));
})();
