import { byId, tell } from "../../transport-http/page/elements.ts";

/** A field that takes a value. */
export interface ValueField {
  readonly name: string;
  check(): string | undefined;
  focus(): void;
  value(): unknown;
}

/** Reads the inputs of a section as its type wants it. */
export function createValueField(section: HTMLElement): ValueField {
  const { id = "", name = "", type = "string" } = section.dataset;
  const inputs = [
    ...section.querySelectorAll<HTMLInputElement | HTMLSelectElement>("input, select"),
  ];
  const [first] = inputs;
  return {
    name,
    check() {
      const wrong = inputs.find((input) => !input.checkValidity());
      const finding = wrong?.validationMessage;
      tell(byId(`${id}-error`), finding);
      section.toggleAttribute("data-wrong", finding !== undefined);
      for (const input of inputs) input.setAttribute("aria-invalid", `${input === wrong}`);
      return finding;
    },
    focus: () => (inputs.find((input) => !input.checkValidity()) ?? first)?.focus(),
    value: () => valueOf(type, inputs),
  };
}

function valueOf(type: string, inputs: readonly (HTMLInputElement | HTMLSelectElement)[]): unknown {
  const [first] = inputs;
  if (type === "array")
    return inputs.flatMap((input) => ((input as HTMLInputElement).checked ? [input.value] : []));
  if (type === "boolean") return (first as HTMLInputElement).checked;
  if (first === undefined || first.value === "") return undefined;
  if (type === "number" || type === "integer") return Number(first.value);
  // a time without a zone is this person's
  if (first.type === "datetime-local") return new Date(first.value).toISOString();
  return first.value;
}
