// loaded separately, if a file has no type
export { typeOfName } from "./type-of-name.ts";
