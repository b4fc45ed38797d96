import tseslint from "typescript-eslint";

export default tseslint.config({ ignores: ["dist", "node_modules"] }, ...tseslint.configs.strictTypeChecked, {
  files: ["**/*.ts"],
  languageOptions: { parserOptions: { projectService: true } },
  rules: {
    // Texts of messages hold numbers.
    "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
    // node:test returns promises that its runner waits for.
    "@typescript-eslint/no-floating-promises": ["error", { allowForKnownSafeCalls: [{ from: "package", name: ["test", "describe"], package: "node:test" }] }],
  },
}, { files: ["**/*.mjs"], ...tseslint.configs.disableTypeChecked });
