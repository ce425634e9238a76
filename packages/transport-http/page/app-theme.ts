/** The look of a host, as far as it is taken on. */
interface HostTheme {
  readonly theme?: unknown;
  readonly styles?: { readonly variables?: Readonly<Record<string, unknown>> };
  readonly safeAreaInsets?: Readonly<Record<string, unknown>>;
}

/** The colours of `base.css` that a host has names for. The others are read on these. */
const colours: Readonly<Record<string, readonly string[]>> = {
  "--color-background-primary": ["--page", "--card"],
  "--color-background-secondary": ["--fill"],
  "--color-text-primary": ["--ink"],
  "--color-text-secondary": ["--soft"],
  "--color-border-primary": ["--line"],
};

/** Takes on the look of the host; what it leaves out stays as it is. Without a theme that of the browser counts. */
export function applyTheme({ theme, styles, safeAreaInsets }: HostTheme): void {
  const { style, dataset } = document.documentElement;
  const isNamed = theme === "light" || theme === "dark";
  if (isNamed || dataset["theme"] === undefined) {
    const preferred = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    dataset["theme"] = isNamed ? theme : preferred;
    style.colorScheme = dataset["theme"];
  }
  const variables = styles?.variables ?? {};
  for (const [name, own] of Object.entries(colours)) {
    const value = variables[name];
    if (typeof value === "string" && CSS.supports("color", value))
      for (const each of own) style.setProperty(each, value);
  }
  const font = variables["--font-sans"];
  if (typeof font === "string" && CSS.supports("font-family", font)) style.fontFamily = font;
  for (const side of ["top", "right", "bottom", "left"] as const) {
    const inset = safeAreaInsets?.[side];
    if (typeof inset === "number") document.body.style.setProperty(`padding-${side}`, `${inset}px`);
  }
}
