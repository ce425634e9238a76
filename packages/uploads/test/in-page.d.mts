/** Bytes that look random and are the same everywhere. */
export function generate(size: number): Uint8Array;
/** Chooses a file of such bytes: more than the line to the browser takes. */
export function chooseGenerated(input: unknown, file: { name: string; size: number }): void;
/** Drops a file on the field, and one beside it. */
export function dropFiles(name: string): { opensMissed: boolean };
/** What a screen reader would say of the element that has the focus. */
export function nameOfFocus(): string;
/** Writes what the policy of the page refuses to its console. */
export function reportViolations(): void;
/** Makes the page as bad as the checks must notice. */
export function spoil(): void;
/** What a checker of accessibility would find. */
export function findings(): string[];
