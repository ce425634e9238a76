import { keepEnd, overwritesInSteps, peek, type PromiseMutants } from "./promise-mutants.ts";

/** Backends that are wrong where steps replace an object, or where a key has several. */
export const stepOverwriteMutants: PromiseMutants = {
  "Begins an object that is written in steps, by one process after the other, or resumes one": {
    "steps-overwrite": {
      "overwrites in place, step by step": (service) =>
        overwritesInSteps(service, (writer, { info }) => ({
          async write(chunk) {
            service.store.put(info.key, chunk.slice());
            await writer.write(chunk);
          },
        })),
      "removes the object that was to be replaced when steps are aborted": (service) =>
        overwritesInSteps(service, (writer, { info }) => {
          let isEnded = false;
          return {
            async suspend() {
              isEnded = true;
              return writer.suspend();
            },
            async commit() {
              isEnded = true;
              return writer.commit();
            },
            async abort() {
              await writer.abort();
              if (!isEnded) await service.store.remove(info.key);
            },
          };
        }),
      "keeps the end of a longer object that steps replace": (service) =>
        overwritesInSteps(service, (writer, { bytes: old }) => ({
          commit: async () => keepEnd(service, old, await writer.commit()),
        })),
      "says at the commit of steps the etag of the version that they replaced": (service) =>
        overwritesInSteps(service, (writer, { info: { etag } }) => ({
          commit: async () => ({
            ...(await writer.commit()),
            ...(etag !== undefined && { etag }),
          }),
        })),
      "keeps the type of the object that steps replace": (service) =>
        overwritesInSteps(service, (writer, { info: { contentType } }) => ({
          async commit() {
            const info = await writer.commit();
            const made = await peek(service, info.key);
            if (made === undefined || contentType === undefined) return info;
            return service.store.put(info.key, made.bytes, { contentType });
          },
        })),
    },
    "steps-two": {
      "has one object in steps for each key": ({ backend }) => {
        const ids = new Map<string, string>();
        return {
          writeInSteps: (writeInSteps) => async (key, options) => {
            const known = ids.get(key);
            if (options?.id === undefined && known !== undefined)
              await backend.writeInSteps?.(key, { id: known }).then(
                (writer) => writer.abort(),
                () => {},
              );
            const writer = await writeInSteps(key, options);
            ids.set(key, writer.id);
            return writer;
          },
        };
      },
      "removes all that is in steps for a key at abort": ({ backend }) => {
        const ids = new Map<string, Set<string>>();
        return {
          writeInSteps: (writeInSteps) => async (key, options) => {
            const writer = await writeInSteps(key, options);
            const all = ids.get(key) ?? new Set();
            ids.set(key, all.add(writer.id));
            let isEnded = false;
            return {
              ...writer,
              async suspend() {
                isEnded = true;
                return writer.suspend();
              },
              async commit() {
                isEnded = true;
                return writer.commit();
              },
              async abort() {
                await writer.abort();
                if (isEnded) return;
                for (const id of all)
                  await backend.writeInSteps?.(key, { id }).then(
                    (other) => other.abort(),
                    () => {},
                  );
              },
            };
          },
        };
      },
    },
  },
};
