import { definedMembers, ensureKnownOptions } from "@sluice/core/internal";
import {
  backendOperations,
  type CallOptions,
  type ChangeBatch,
  type FindKept,
  type ListOptions,
  type ListPage,
  type ObjectInfo,
  type ObjectWriter,
  type OpenedObject,
  type OpenOptions,
  type PresignedUrl,
  type PresignOptions,
  type StepOptions,
  type StepWriter,
  type StorageBackend,
  type WatchOptions,
  withKept,
  type WriteOptions,
} from "../contract/backend.ts";
import { beginOperation, type OperationOptions } from "./operation.ts";

/** The options of a call, and the start of its messages: `s3: open "a.txt"`, or `s3: list`. */
export type BackendCall<Options = CallOptions> = Options & { readonly operation: string };

/** One operation on a key. It may throw, or give its result at once. */
type Operate<Options, Result> = (
  key: string,
  call: BackendCall<Options>,
) => Result | Promise<Result>;

/** What {@link defineBackend} takes: the operations of a `StorageBackend`. One that is `undefined` is not supported. */
export interface BackendDefinition {
  /** Short stable name that starts messages. */
  readonly name: string;
  readonly describe: Operate<CallOptions, ObjectInfo>;
  readonly open: Operate<OpenOptions, OpenedObject> & { readonly inMemory?: FindKept };
  /** `listPage` does the rest: limit and cursor. */
  readonly list: (call: BackendCall<ListOptions>) => ListPage | Promise<ListPage>;
  readonly presign?: Operate<PresignOptions, PresignedUrl | undefined> | undefined;
  readonly presignOrigins?:
    | ((call: BackendCall) => readonly string[] | Promise<readonly string[]>)
    | undefined;
  readonly watch?: ((call: BackendCall<WatchOptions>) => AsyncIterable<ChangeBatch>) | undefined;
  readonly write?: Operate<WriteOptions, ObjectWriter> | undefined;
  readonly writeInSteps?: Operate<StepOptions, StepWriter> | undefined;
  readonly remove?: Operate<CallOptions, void> | undefined;
  readonly freeBytes?:
    | ((call: BackendCall) => number | undefined | Promise<number | undefined>)
    | undefined;
  readonly close?: (() => void | Promise<void>) | undefined;
}

/** The names of what is surely given. */
type Given<Definition> = {
  [Name in keyof Definition]-?: undefined extends Definition[Name] ? never : Name;
}[keyof Definition];

/** A backend with the operations of its definition: one with `write` and `remove` is a `WritableBackend`. */
export type DefinedBackend<Definition extends BackendDefinition> = StorageBackend &
  Required<Pick<StorageBackend, Given<Definition> & keyof StorageBackend>>;

/**
 * Makes a backend of its operations. Each call begins with the checks that every backend must do: an aborted signal
 * rejects with its reason, an illegal key or range with `invalid_argument`, before the operation sees them. Then the
 * operation gets the caller's options with `operation`, the start of its messages. What it throws becomes a rejection.
 *
 * Throws a `TypeError` for a definition without `name`, `describe`, `open` or `list`, and for a member that no backend has.
 */
export function defineBackend<Definition extends BackendDefinition>(
  definition: Definition,
): DefinedBackend<Definition> {
  ensureDefinition(definition);
  const { name } = definition;

  /** Adds the checks of a call to an operation on a key. */
  const keyed = <Options extends OperationOptions, Result>(
    method: string,
    operate: Operate<Options, Result> | undefined,
  ) =>
    operate &&
    (async (key: string, options: Options = {} as Options): Promise<Result> =>
      operate.call(definition, key, {
        ...options,
        operation: beginOperation(`${name}: ${method}`, key, options),
      }));

  /** The same for an operation without a key. */
  const keyless = <Options extends CallOptions, Result>(
    method: string,
    operate: ((call: BackendCall<Options>) => Result | Promise<Result>) | undefined,
  ) =>
    operate &&
    (async (options: Options = {} as Options): Promise<Result> => {
      options.signal?.throwIfAborted();
      return operate.call(definition, { ...options, operation: `${name}: ${method}` });
    });

  const { watch, close } = definition;
  const backend: StorageBackend = {
    name,
    describe: keyed("describe", definition.describe)!,
    open: withKept(keyed("open", definition.open)!, definition.open.inMemory),
    list: keyless("list", definition.list)!,
    ...definedMembers({
      presign: keyed("presign", definition.presign),
      presignOrigins: keyless("presign origins", definition.presignOrigins),
      watch:
        watch &&
        ((options: WatchOptions) =>
          watch.call(definition, { ...options, operation: `${name}: watch` })),
      write: keyed("write", definition.write),
      writeInSteps: keyed("write in steps", definition.writeInSteps),
      remove: keyed("remove", definition.remove),
      freeBytes: keyless("free bytes", definition.freeBytes),
      close: close && (async () => close.call(definition)),
    }),
  };
  return backend as DefinedBackend<Definition>;
}

function ensureDefinition(definition: Partial<BackendDefinition>): void {
  ensureKnownOptions("defineBackend", definition, { name: true, ...backendOperations });
  if (typeof definition.name !== "string" || definition.name === "")
    throw new TypeError('defineBackend: name must be a short name, such as "s3"');
  for (const operation of ["describe", "open", "list"] as const)
    if (typeof definition[operation] !== "function")
      throw new TypeError(`defineBackend: ${operation} must be a function: every backend has one`);
}
