import { make } from "./elements.ts";
import { loadStart, requestLink, uriOf } from "./load.ts";
import { pictureSize } from "./picture-size.ts";

/** Of larger files all would be loaded for a few pixels; they keep the mark of their type. */
const maxBytes = 512 * 1024;
/** Pictures that are larger, or longer on one side, would take a browser's memory when they are unpacked. */
const maxPixels = 32_000_000;
const maxSide = 16_384;
/** Pictures of one visit. Each is a link and a download, in the limits and records of the caller. */
const maxPictures = 200;
/** Downloads at a time: the server allows a caller a few, and those of the user come first. */
const maxAtOnce = 2;
/** What is drawn: the place of the mark, for screens of twice the density. */
const drawn = { width: 80, height: 56 } as const;

const pictureName = /\.(?:png|jpe?g|gif|webp)$/i;

/** Draws small pictures in place of the marks of rows that come into sight. Nothing of the originals is kept. */
export class Thumbnails {
  readonly #queue = new Set<HTMLTableRowElement>();
  #loading = 0;
  #left = maxPictures;
  readonly #sight = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      const row = target.closest("tr")!;
      if (isIntersecting) this.#queue.add(row);
      else this.#queue.delete(row);
    }
    this.#next();
  });

  /** Begins to look at the rows that may have a picture. */
  watch(rows: readonly HTMLTableRowElement[]): void {
    for (const row of rows) {
      const { name = "", size } = row.dataset;
      const isSmall = size !== undefined && Number(size) <= maxBytes;
      if (!isSmall || !pictureName.test(name)) continue;
      const mark = row.querySelector(".mark")!;
      if (!mark.firstElementChild) this.#sight.observe(mark);
    }
  }

  #next(): void {
    for (const row of this.#queue) {
      if (this.#loading === maxAtOnce || this.#left === 0) return;
      this.#queue.delete(row);
      this.#left -= 1;
      this.#loading += 1;
      const mark = row.querySelector(".mark")!;
      this.#sight.unobserve(mark);
      void this.#draw(row, mark).finally(() => {
        this.#loading -= 1;
        this.#next();
      });
    }
  }

  async #draw(row: HTMLTableRowElement, mark: Element): Promise<void> {
    try {
      const picture = await loadPicture(uriOf(row));
      if (!picture) return;
      mark.replaceChildren(fill(picture));
      picture.close();
    } catch {
      // a server that is busy or gone is not asked for what is only to look at
      this.#left = 0;
    }
  }
}

/** The picture of a file, small; `undefined` for other files, and for too large ones. */
async function loadPicture(uri: string): Promise<ImageBitmap | undefined> {
  const { signal } = new AbortController();
  const link = await requestLink(uri, signal);
  // it may have changed since it was listed
  if ((link.size ?? Infinity) > maxBytes) return undefined;
  const bytes = await loadStart(link, maxBytes, signal);
  const size = pictureSize(bytes);
  if (!size || size.width * size.height > maxPixels) return undefined;
  const side = Math.max(size.width, size.height);
  if (side > maxSide) return undefined;
  const resizeWidth = Math.max(1, Math.round((size.width * 2 * drawn.width) / side));
  return createImageBitmap(new Blob([bytes]), { resizeWidth, resizeQuality: "medium" }).catch(
    () => undefined,
  );
}

/** The middle of a picture, as much as fits. */
function fill(picture: ImageBitmap): HTMLCanvasElement {
  const { width, height } = drawn;
  const canvas = make("canvas", { width: `${width}`, height: `${height}` });
  const scale = Math.min(picture.width / width, picture.height / height);
  const [across, down] = [width * scale, height * scale];
  const [left, top] = [(picture.width - across) / 2, (picture.height - down) / 2];
  canvas.getContext("2d")?.drawImage(picture, left, top, across, down, 0, 0, width, height);
  return canvas;
}
