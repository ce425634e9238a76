/**
 * How a question ended, as its page tells it:
 * - `accepted`: the tool has the very files of the answer
 * - `declined`: the user said no on the page
 * - `cancelled`: the question was closed where it came from
 * - `failed`: the tool could not take the answer; nothing of it is kept
 */
export type PageOutcome = "accepted" | "declined" | "cancelled" | "failed";

interface PageEnding {
  readonly heading: string;
  readonly sentence: string;
}

/** For the page as the server writes it and for its script. Only `accepted` says that all is done. */
export const endings: { readonly [Phase in "answered" | PageOutcome]: PageEnding } = {
  answered: {
    heading: "Almost done",
    sentence:
      "Your files have arrived. Go back to where you got this link; if an assistant gave it to you, tell it: “The files are sent.” This page says when they were taken.",
  },
  accepted: {
    heading: "All done",
    sentence: "Your files were taken. You can close this page and go back.",
  },
  declined: {
    heading: "Nothing is used",
    sentence: "What you sent was removed. You can close this page and go back.",
  },
  cancelled: {
    heading: "This request was closed",
    sentence:
      "It was closed by its sender, and none of your files are used. Go back and ask for a new link.",
  },
  failed: {
    heading: "Your files were not taken",
    sentence: "The files could not be used, and were deleted. Go back and ask for a new link.",
  },
};
