import type { Browser } from "playwright-core";
import { startBrowser } from "./browser.ts";

/** A user with a browser. */
export interface User extends AsyncDisposable {
  /** Opens an upload page, picks a file, waits until it is sent, and says that this is all. */
  sendByPage(url: string, path: string): Promise<void>;
}

export async function startUser(): Promise<User> {
  const browser: Browser = await startBrowser();
  return {
    async sendByPage(url, path) {
      const page = await browser.newPage();
      try {
        await page.goto(url);
        await page.locator("input[type=file]").first().setInputFiles(path);
        await page.getByText("sent", { exact: false }).first().waitFor();
        const done = page.locator("#done");
        if (await done.isVisible()) {
          await done.click();
          // a page that is closed while it answers takes its answer along
          await page
            .getByText(/Almost done|All done/)
            .first()
            .waitFor();
        }
      } finally {
        await page.close();
      }
    },
    [Symbol.asyncDispose]: () => browser.close(),
  };
}
