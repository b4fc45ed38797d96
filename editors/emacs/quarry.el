;;; quarry.el --- Search code by meaning  -*- lexical-binding: t; -*-

;; Version: 0.1.0
;; Package-Requires: ((emacs "28.1"))
;; Keywords: tools, matching
;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Finds code by what it does, with the program `quarry':
;;
;;   M-x quarry-search    list what answers a query, in an xref buffer
;;   M-x quarry-find      choose one of these with completion
;;   M-x quarry-similar   list code similar to the function at point
;;   M-x quarry-callers   list the callers of the function at point
;;   M-x quarry-callees   list what the function at point calls
;;
;; The first command in a project builds its index in the background, and goes on when that is done.
;;
;; `quarry-xref-mode' has `M-.', `M-?' and `C-M-.' ask Quarry, where no language server does.

;;; Code:

(require 'cl-lib)
(require 'json)
(require 'project)
(require 'subr-x)
(require 'xref)

(defgroup quarry nil
  "Search code by meaning."
  :group 'tools)

(defcustom quarry-program "quarry"
  "The program, a name on `exec-path' or a path."
  :type 'string)

(defcustom quarry-arguments nil
  "Arguments of searches, such as (\"--quality\" \"best\")."
  :type '(repeat string))

(defvar quarry-history nil
  "Queries that were asked.")

(defvar quarry--indexed nil
  "Directories that are known to have an index.")

(defun quarry--root ()
  "The directory that is searched: the project, else the current directory."
  (let ((project (project-current)))
    (expand-file-name
     (cond ((null project) default-directory)
           ((fboundp 'project-root) (project-root project))
           (t (car (with-no-warnings (project-roots project))))))))

(defun quarry--run (&rest arguments)
  "The object that the program prints with ARGUMENTS in `quarry--root'."
  (let* ((default-directory (quarry--root))
         (coding-system-for-read 'utf-8)
         (coding-system-for-write 'utf-8)
         (errors (make-temp-file "quarry")))
    (unwind-protect
        (with-temp-buffer
          (let ((code (apply #'call-process quarry-program nil (list t errors) nil
                             (car arguments) "--json" (cdr arguments))))
            ;; 1 is that nothing clearly answers.
            (unless (memq code '(0 1))
              (user-error "%s" (quarry--problem errors code)))
            (goto-char (point-min))
            (if (eobp)
                (user-error "%s" (quarry--problem errors code))
              (json-parse-buffer :object-type 'plist :array-type 'list :null-object nil :false-object nil))))
      (delete-file errors))))

(defun quarry--problem (errors code)
  "What is in the file ERRORS of a program that ended with CODE."
  (let ((text (with-temp-buffer
                (insert-file-contents errors)
                (string-trim (buffer-string)))))
    (if (string-empty-p text) (format "quarry: exit code %s" code) text)))

(defun quarry--when-indexed (then)
  "Call the function THEN once `quarry--root' has an index.
If it has none, build it in the background, and call THEN afterwards."
  (let ((root (quarry--root)))
    (when (and (not (member root quarry--indexed))
               (plist-get (quarry--run "status") :holds))
      (push root quarry--indexed))
    (if (member root quarry--indexed)
        (funcall then)
      (quarry--index root then))))

(defun quarry--index (root then)
  "Index the directory ROOT in the background, then call THEN in this buffer."
  (let ((name (concat "quarry index " root))
        (buffer (current-buffer)))
    (when (get-process name)
      (user-error "Quarry is still indexing %s" root))
    (message "Quarry is indexing %s..." root)
    (let ((default-directory root)
          (output (generate-new-buffer " *quarry index*")))
      (make-process
       :name name :buffer output :command (list quarry-program "index") :noquery t
       :sentinel
       (lambda (process _event)
         (unless (process-live-p process)
           (let ((code (process-exit-status process))
                 (text (with-current-buffer output (string-trim (buffer-string)))))
             (kill-buffer output)
             (cond
              ((not (zerop code)) (message "quarry index: %s" text))
              ((buffer-live-p buffer)
               (push root quarry--indexed)
               (message "Quarry has indexed %s" root)
               (with-current-buffer buffer (funcall then)))
              (t (push root quarry--indexed))))))))))

(defun quarry--xref (object line summary)
  "The place at LINE of the file of OBJECT, described by SUMMARY."
  (xref-make summary
             (xref-make-file-location
              (expand-file-name (plist-get object :path) (plist-get object :root))
              line 0)))

(defun quarry--result (result)
  "The place of a RESULT of a search."
  (let ((name (plist-get result :name)))
    (quarry--xref result (plist-get result :start_line)
                  (format "%s %s" (plist-get result :kind)
                          (if (string-empty-p name)
                              (car (split-string (plist-get result :snippet) "\n"))
                            name)))))

(defun quarry--search (query)
  "The places that answer QUERY, best first."
  (mapcar #'quarry--result
          (plist-get (apply #'quarry--run "search" (append quarry-arguments (list "--" query))) :results)))

(defun quarry--definition (definition)
  "The place of a DEFINITION."
  (quarry--xref definition (plist-get definition :start_line)
                (format "%s %s" (plist-get definition :kind) (plist-get definition :name))))

(defun quarry--sites (subject)
  "The places that call SUBJECT, a name or FILE:LINE."
  (mapcar (lambda (site)
            (quarry--xref site (plist-get site :line)
                          (concat (plist-get site :text)
                                  (unless (plist-get site :certain) "  (matched by name only)"))))
          (plist-get (quarry--run "callers" "--" subject) :callers)))

(defun quarry--callees (subject)
  "The definitions of what SUBJECT, a name or FILE:LINE, calls."
  (let ((definitions (plist-get (quarry--run "callees" "--" subject) :definitions)))
    (cl-loop for definition in definitions
             append (cl-loop for callee in (plist-get definition :callees)
                             append (mapcar #'quarry--definition (plist-get callee :definitions))))))

(defun quarry--show (find)
  "Show the places that the function FIND gives, once there is an index."
  (quarry--when-indexed
   (lambda ()
     (let ((places (funcall find)))
       (unless places
         (user-error "Nothing found"))
       (funcall xref-show-xrefs-function (lambda () places)
                `((window . ,(selected-window)) (display-action . nil) (auto-jump . nil)))))))

(defun quarry--here ()
  "The line at point as FILE:LINE, of a buffer that is saved."
  (unless buffer-file-name
    (user-error "This buffer has no file"))
  (when (buffer-modified-p)
    (unless (y-or-n-p (format "Save %s, so that Quarry reads what it shows? " (buffer-name)))
      (user-error "Quarry reads files: save the buffer first"))
    (save-buffer))
  (format "%s:%d" buffer-file-name (line-number-at-pos nil t)))

(defun quarry--read ()
  "A query from the minibuffer."
  (list (read-string "Search code: " nil 'quarry-history)))

;;;###autoload
(defun quarry-search (query)
  "List the code that answers QUERY, in plain words or a symbol."
  (interactive (quarry--read))
  (quarry--show (lambda () (quarry--search query))))

;;;###autoload
(defun quarry-find (query)
  "Choose one of the places that answer QUERY, with completion, and go there."
  (interactive (quarry--read))
  (quarry--when-indexed (lambda () (quarry--choose query))))

(defun quarry--choose (query)
  "Choose one of the places that answer QUERY, and go there."
  (let* ((places (or (quarry--search query) (user-error "Nothing found")))
         (names (mapcar #'quarry--name places))
         (order (lambda (names) names))
         (table (lambda (text predicate action)
                  (if (eq action 'metadata)
                      ;; The best one stays first.
                      `(metadata (category . xref-location)
                                 (display-sort-function . ,order)
                                 (cycle-sort-function . ,order))
                    (complete-with-action action names text predicate))))
         (chosen (completing-read "Go to: " table nil t nil nil (car names))))
    (xref-push-marker-stack)
    (let ((marker (xref-location-marker
                   (xref-item-location (nth (cl-position chosen names :test #'string=) places)))))
      (switch-to-buffer (marker-buffer marker))
      (goto-char marker))))

(defun quarry--name (place)
  "A line that names PLACE."
  (let ((location (xref-item-location place)))
    (format "%s:%d: %s" (file-relative-name (xref-location-group location) (quarry--root))
            (xref-location-line location) (xref-item-summary place))))

;;;###autoload
(defun quarry-similar ()
  "List code similar to the function at point."
  (interactive)
  (let ((here (quarry--here)))
    (quarry--show (lambda ()
                    (mapcar #'quarry--result (plist-get (quarry--run "similar" "--" here) :results))))))

;;;###autoload
(defun quarry-callers (subject)
  "List the callers of SUBJECT, a name or FILE:LINE.
Interactively, it is the function at point."
  (interactive (list (quarry--here)))
  (quarry--show (lambda () (quarry--sites subject))))

;;;###autoload
(defun quarry-callees (subject)
  "List what SUBJECT, a name or FILE:LINE, calls.
Interactively, it is the function at point."
  (interactive (list (quarry--here)))
  (quarry--show (lambda () (quarry--callees subject))))

;;;###autoload
(defun quarry-xref-backend ()
  "The backend, for `xref-backend-functions', unless a language server is one."
  (unless (or (bound-and-true-p eglot--managed-mode) (bound-and-true-p lsp-mode))
    'quarry))

(cl-defmethod xref-backend-identifier-at-point ((_backend (eql quarry)))
  (thing-at-point 'symbol t))

(cl-defmethod xref-backend-definitions ((_backend (eql quarry)) identifier)
  (mapcar #'quarry--definition
          (plist-get (quarry--run "callers" "-k" "1" "--" identifier) :definitions)))

(cl-defmethod xref-backend-references ((_backend (eql quarry)) identifier)
  (quarry--sites identifier))

(cl-defmethod xref-backend-apropos ((_backend (eql quarry)) pattern)
  (quarry--search pattern))

(cl-defmethod xref-backend-identifier-completion-table ((_backend (eql quarry)))
  nil)

;;;###autoload
(define-minor-mode quarry-xref-mode
  "Have xref ask Quarry where no language server answers."
  :lighter nil
  (if quarry-xref-mode
      (add-hook 'xref-backend-functions #'quarry-xref-backend nil t)
    (remove-hook 'xref-backend-functions #'quarry-xref-backend t)))

(provide 'quarry)

;;; quarry.el ends here
