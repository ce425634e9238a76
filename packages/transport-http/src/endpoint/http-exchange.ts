const bodies = new WeakMap<Request, Uint8Array>();

/** Leaves the body of a request, which its transport has collected, for the layer that reads it first. */
export function leaveBody(request: Request, body: Uint8Array): void {
  bodies.set(request, body);
}

/** Takes it. `undefined` where none was left: then a copy of the request has to be read. */
export function takeBody(request: Request): Uint8Array | undefined {
  const body = bodies.get(request);
  bodies.delete(request);
  return body;
}
