import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";

/** Files of a certificate and its key. */
export interface CertificateFiles {
  readonly cert: string;
  readonly key: string;
}

/** An authority that a test made, and what it signs. */
export interface TestAuthority {
  /** File of its certificate. */
  readonly ca: string;
  /** Signs a certificate for names such as `DNS:localhost`, in two files of the folder. */
  sign(name: string, alternatives: string): CertificateFiles;
}

const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];

/** Makes an authority with the program openssl; `undefined` if there is none. */
export function createAuthority(folder: string, name = "authority"): TestAuthority | undefined {
  const [ca, caKey] = [join(folder, `${name}.pem`), join(folder, `${name}.key`)];
  const openssl = (...args: readonly string[]): unknown =>
    execFileSync("openssl", args, { stdio: "ignore" });
  try {
    const files = ["-keyout", caKey, "-out", ca];
    openssl("req", "-x509", ...curve, "-days", "2", "-subj", `/CN=${name}`, ...files);
  } catch {
    return undefined;
  }
  return {
    ca,
    sign(subject, alternatives) {
      const [key, cert] = [join(folder, `${subject}.key`), join(folder, `${subject}.pem`)];
      const [request, extension] = [`${cert}.csr`, `${cert}.ext`];
      writeFileSync(extension, `subjectAltName=${alternatives}\n`);
      openssl("req", ...curve, "-subj", `/CN=${subject}`, "-keyout", key, "-out", request);
      const signer = ["-CA", ca, "-CAkey", caKey, "-CAcreateserial", "-days", "2"];
      openssl("x509", "-req", "-in", request, ...signer, "-extfile", extension, "-out", cert);
      return { cert, key };
    },
  };
}

/** The text of both files, as servers take it. */
export async function readPair({ cert, key }: CertificateFiles) {
  return { cert: await readFile(cert, "utf8"), key: await readFile(key, "utf8") };
}
