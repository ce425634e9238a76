// Runs inside the page of a browser.

/** Bytes that look random and are the same everywhere. The page has it as well. */
export function generate(size) {
  const bytes = new Uint8Array(size);
  let state = 7;
  for (let at = 0; at < size; at += 4) {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    bytes[at] = state >>> 24;
  }
  return bytes;
}

/** Chooses a file of such bytes: more than the line to the browser takes. */
export function chooseGenerated(input, { name, size }) {
  const bytes = generate(size);
  const chosen = new DataTransfer();
  chosen.items.add(new File([bytes], name));
  input.files = chosen.files;
  input.dispatchEvent(new Event("change"));
}

/** Drops a file on the field, and one beside it. */
export function dropFiles(name) {
  const drop = (at) => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File(["dropped"], name, { type: "text/plain" }));
    return at.dispatchEvent(
      new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer }),
    );
  };
  drop(document.querySelector(".drop"));
  return { opensMissed: drop(document.body) };
}

/** What a screen reader would say of the element that has the focus. */
export function nameOfFocus() {
  const element = document.activeElement;
  return element.ariaLabel ?? element.labels?.[0]?.textContent?.trim() ?? element.innerText;
}

/** Writes what the policy of the page refuses to its console. */
export function reportViolations() {
  document.addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) =>
    console.error(`policy: ${violatedDirective} ${blockedURI}`),
  );
}

/** Makes the page as bad as the checks must notice. */
export function spoil() {
  const bad = document.createElement("p");
  bad.id = "done";
  bad.setAttribute("style", "color: red");
  bad.setAttribute("aria-describedby", "nothing");
  bad.textContent = "cannot be read";
  document.querySelector("main").append(bad);
  bad.style.color = getComputedStyle(document.body).backgroundColor;
}

/** What a checker of accessibility would find. Runs in the page. */
export function findings() {
  const found = [];
  const ids = [...document.querySelectorAll("[id]")].map(({ id }) => id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) found.push(`id ${id} twice`);
  for (const attribute of ["aria-describedby", "aria-labelledby", "for"])
    for (const element of document.querySelectorAll(`[${attribute}]`))
      for (const id of element.getAttribute(attribute)?.split(" ") ?? [])
        if (!document.getElementById(id)) found.push(`${attribute} names no ${id}`);
  if (document.documentElement.lang === "") found.push("no language");
  if (document.documentElement.scrollWidth > innerWidth) found.push("wider than the window");

  const channels = (color) => (color.match(/[\d.]+/g) ?? []).map(Number);
  const luminance = (color) => {
    const [r = 0, g = 0, b = 0] = color.map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const backgroundOf = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = channels(getComputedStyle(at).backgroundColor);
      if (color[3] !== 0) return color.slice(0, 3);
    }
    return [255, 255, 255];
  };
  for (const element of document.querySelectorAll("main *")) {
    const text = [...element.childNodes].some(
      (node) => node.nodeType === 3 && node.textContent?.trim(),
    );
    const style = getComputedStyle(element);
    if (!text || !element.checkVisibility() || style.clipPath !== "none") continue;
    const tones = [channels(style.color).slice(0, 3), backgroundOf(element)].map(luminance);
    const contrast = (Math.max(...tones) + 0.05) / (Math.min(...tones) + 0.05);
    if (contrast < 4.5)
      found.push(
        `${contrast.toFixed(2)}: ${element.className} ${element.textContent?.slice(0, 30)}`,
      );
  }
  for (const element of document.querySelectorAll("button, select, .drop")) {
    const { height, width } = element.getBoundingClientRect();
    if (element.checkVisibility() && (height < 24 || width < 24))
      found.push(`small: ${element.textContent}`);
  }
  return found;
}
