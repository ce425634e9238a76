/**
 * How a question ended, as its page tells it:
 * - `accepted`: the tool has the very files of the answer
 * - `declined`: the user said no on the page
 * - `cancelled`: the question was closed where it came from
 * - `failed`: the tool could not take the answer; nothing of it is kept
 */
export type PageOutcome = "accepted" | "declined" | "cancelled" | "failed";
