/** What both versions of the SDK's `Client` have. */
export interface RequestingClient {
  // the two SDKs agree on the call and differ in its types
  // oxlint-disable-next-line typescript/no-explicit-any
  request(request: any, resultSchema: any, options?: any): Promise<any>;
}
