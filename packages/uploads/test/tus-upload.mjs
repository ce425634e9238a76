// Sends bytes (base64) to a URL with tus-js-client, in the steps of the IETF draft, and prints where they are. A process of
// its own: the library listens to the signals of the one that it is in.
import { Upload } from "tus-js-client";

const [, , base64, endpoint] = process.argv;
const bytes = Buffer.from(base64, "base64");
const upload = new Upload(bytes, {
  endpoint,
  protocol: "ietf-draft-05",
  chunkSize: 10_000,
  uploadSize: bytes.length,
  onSuccess: () => process.stdout.write(`${upload.url}\n`),
  onError: (error) => {
    throw error;
  },
});
upload.start();
