import { randomNumbers } from "./random-numbers.ts";

const parts = [
  ...Array.from("/\\.: \0\r\n\t<>\"|?*%$~'`;,=+()&#é😀漢ʶ"),
  ...Array.from(
    "\u200b\u200e\u202e\u2066\u2069\ufeff\u0085\u007f\u0301\u0338\ud800\udfff\u037e\u212b",
  ),
  ..."../|..\\|con|NUL|com1|.txt|a|aaaaaaaaaaaaaaaaaaaaaaaa|漢字漢字漢字漢字".split("|"),
  "set-cookie: a=b",
  "text/plain",
  "charset=",
  "=?base64?",
  "?=",
  "%0d%0a",
  "filename*=UTF-8''",
];

/** Text as an attacker would choose it, the same for the same seed. Cheap, so that many fit a run. */
export function hostileText(seed: number): string {
  const random = randomNumbers(seed);
  const count = random(random(8) === 0 ? 200 : 16);
  let text = "";
  for (let n = 0; n < count; n++)
    text += random(4) === 0 ? String.fromCharCode(random(0x10000)) : parts[random(parts.length)]!;
  return text;
}
