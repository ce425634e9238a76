/** Takes files from the page of this server that has this one in a panel, and says to it that it does. */
export function joinPanel(take: (files: readonly File[]) => void): void {
  if (parent === window) return;
  document.documentElement.dataset["panel"] = "";
  addEventListener("message", ({ source, origin, data }: MessageEvent<unknown>) => {
    const isOurs = source === parent && origin === location.origin;
    if (isOurs && Array.isArray(data) && data.every((file) => file instanceof File)) take(data);
  });
  tellPanel("ready");
}

/** Tells the page around this one, if there is one, how far it is: `ready`, or how the question ended. */
export function tellPanel(word: string): void {
  if (parent !== window) parent.postMessage(word, location.origin);
}
