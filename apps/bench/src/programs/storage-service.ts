/**
 * A storage service on this machine whose bytes are made up when they are read:
 * `node --import tsx storage-service.ts KIND`. Objects are called by their size in bytes. Prints a
 * port and a `Service` as a line of JSON when it listens. Not built: the stand-ins are tests of the plugins.
 */
import { ContainerClient } from "@azure/storage-blob";
import { startGraphEmulator } from "@sluice/graph-emulator";
import { startAzurite } from "../../../../packages/storage-azure-blob/test/azurite.ts";
import { startFaultProxy } from "../../../../packages/storage-azure-blob/test/fault-proxy.ts";
import { startS3StandIn } from "../../../../packages/storage-s3/test/stand-in/stand-in.ts";
import { wayOf } from "../lib/program.ts";
import type { Service } from "../lib/service.ts";

const [kind = "", ...names] = process.argv.slice(2);
const zeros = new Uint8Array(256 * 1024);
const generated = (name: string) => ({
  size: Number(name),
  read: (start: number, end: number) =>
    end - start > zeros.byteLength ? new Uint8Array(end - start) : zeros.subarray(0, end - start),
});

const kinds: Readonly<Record<string, () => Promise<Service>>> = {
  async s3() {
    const s3 = await startS3StandIn();
    for (const name of names) s3.put(name, generated(name));
    const { bucket, endpoint, credentials } = s3;
    return { kind: "s3", bucket, endpoint, credentials };
  },
  async "azure-blob"() {
    // Azurite keeps all that it has in memory; everything is generated before it would be asked
    const anonymous = new ContainerClient("http://127.0.0.1:1/account/container");
    const proxy = await startFaultProxy(anonymous);
    for (const name of names) proxy.generated.set(name, { size: Number(name) });
    const url = `${proxy.url}/account/container`;
    return { kind: "azure-blob", url, account: "account", key: btoa("key") };
  },
  /** Keeps what is written, in memory. */
  async azurite() {
    const azurite = await startAzurite();
    const { url } = await azurite.createContainer();
    setInterval(() => {}, 2 ** 30); // Azurite, which ends with this process, does not hold it
    return { kind: "azure-blob", url, account: azurite.account, key: azurite.key };
  },
  async graph() {
    const { drive, origins, credential } = await startGraphEmulator();
    for (const name of names) drive.put(name, generated(name));
    const { token } = await credential.getToken();
    return { kind: "graph", baseUrl: origins.graph, driveId: drive.id, token };
  },
};

console.log(JSON.stringify({ port: 0, service: await wayOf(kinds, kind)() }));
