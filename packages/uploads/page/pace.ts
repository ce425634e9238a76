import { sizeText } from "@sluice/core/internal";

/** What was sent before is not how fast it is now. */
const windowMs = 6_000;
/** Less says nothing yet. */
const minMs = 1_000;

/** How fast a file goes. */
export class Pace {
  #points: { readonly at: number; readonly sent: number }[] = [];

  /** Notes how many bytes are sent, at a time in milliseconds. */
  note(sent: number, at: number): void {
    const last = this.#points.at(-1);
    // it began anew, or was asleep
    if (last && (sent < last.sent || at - last.at > windowMs)) this.#points = [];
    this.#points = [...this.#points.filter((point) => at - point.at <= windowMs), { at, sent }];
  }

  /** Of the last seconds; `undefined` before it can be told, and for a file that stands still. */
  get bytesPerSecond(): number | undefined {
    const [first, last] = [this.#points[0], this.#points.at(-1)];
    if (!first || !last || last.at - first.at < minMs || last.sent === first.sent) return undefined;
    return ((last.sent - first.sent) / (last.at - first.at)) * 1_000;
  }
}

/** `2.1 MB/s, 40 s left`; empty as long as it cannot be told. */
export function paceText({ bytesPerSecond }: Pace, bytesLeft: number): string {
  if (bytesPerSecond === undefined) return "";
  const seconds = Math.ceil(bytesLeft / bytesPerSecond);
  return `${sizeText(bytesPerSecond)}/s, ${durationText(seconds)} left`;
}

function durationText(seconds: number): string {
  if (seconds < 100) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 100 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}
