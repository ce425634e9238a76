// Sends bytes (base64) to a URL with tus-js-client and prints where they are; further options of it come as JSON. With
// `terminate` it takes them back. A process of its own: the library listens to the signals of the one that it is in.
import { Upload } from "tus-js-client";

const [, , base64, endpoint, more = "{}"] = process.argv;
const bytes = Buffer.from(base64, "base64");
const { terminate, ...options } = JSON.parse(more);
const upload = new Upload(bytes, {
  endpoint,
  chunkSize: 10_000,
  uploadSize: bytes.length,
  retryDelays: null,
  onSuccess: () => process.stdout.write(`${upload.url}\n`),
  onError: (error) => {
    throw error;
  },
  onChunkComplete: (_size, accepted) => {
    if (terminate && accepted >= bytes.length / 2)
      void upload.abort(true).then(() => process.stdout.write("terminated\n"));
  },
  ...options,
});
upload.start();
